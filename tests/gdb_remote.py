# SPDX-License-Identifier: BSD-2-Clause
#
# A debugger that does nothing but count: speaks the GDB remote protocol with
# auxdecode gdbserver.
#
#	gdb_remote.py walk SERVER...	back from the end to the beginning and forwards again, by
#		single steps of each thread: prints "TID IP" for each instruction, in
#		order; fails unless both ways pass the same
#	gdb_remote.py points ADDR,... SERVER...	how often each breakpoint stops, back and
#		forwards: "ADDR BACK FORWARDS"
#	gdb_remote.py gaps SERVER...	how many gaps stop it on its way back and forwards
#	gdb_remote.py interrupt SERVER...	what runs on stops when it is asked to, back and
#		forwards, and goes on from there
#	gdb_remote.py noise SEED N SERVER...	N packets of anything; the server must go on
#		answering
import random
import subprocess
import sys


class Server:
    def __init__(self, argv):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, bufsize=0)
        self.buf = b""
        if self.ask("QStartNoAckMode") != "OK":
            raise SystemExit("no answer")
        self.process.stdin.write(b"+")

    def more(self):
        data = self.process.stdout.read(65536)
        if not data:
            raise SystemExit("the server is gone: %s" % self.process.wait())
        self.buf += data

    def packet(self):
        while True:
            begin = self.buf.find(b"$")
            end = self.buf.find(b"#", begin + 1)
            if begin >= 0 and end >= 0 and len(self.buf) >= end + 3:
                break
            self.more()
        text, self.buf = self.buf[begin + 1:end], self.buf[end + 3:]
        return text.decode("latin1")

    def send(self, data):
        self.process.stdin.write(b"$%s#%02x" % (data, sum(data) & 0xff))

    def ask(self, text):
        self.send(text.encode("latin1"))
        answer = self.packet()
        self.said = ""
        while answer[:1] == "O" and answer != "OK":     # for the console
            self.said += bytes.fromhex(answer[1:]).decode()
            answer = self.packet()
        return answer

    def threads(self):
        return self.ask("qfThreadInfo")[1:].split(",")

    def pc(self):
        """The last register of g; all before it are unavailable."""
        text = self.ask("g").lstrip("x")
        return int.from_bytes(bytes.fromhex(text), "little")


def is_edge(answer):
    return "replaylog" in answer


def to_edge(server, command):
    while not is_edge(server.ask(command)):
        pass


def walk_thread(server, tid):
    server.ask("Hc" + tid)
    back = []
    while not is_edge(server.ask("bs")):
        back.append(server.pc())
        server.ask("Hc" + tid)
    forwards = []
    while not is_edge(server.ask("vCont;s:%s;c" % tid)):
        forwards.append(server.pc())
    server.ask("Hg" + tid)
    return back[::-1], forwards, server.pc()


def walk(server):
    for tid in server.threads():
        to_edge(server, "vCont;c")
        # to the thread's own last instruction
        to_edge(server, "vCont;s:%s;c" % tid)
        server.ask("Hg" + tid)
        end = server.pc()
        back, forwards, pc = walk_thread(server, tid)
        if back + [end] != back[:1] + forwards or pc != end:
            raise SystemExit("thread %s: back and forwards differ" % tid)
        for ip in back + [end]:
            print(int(tid, 16), "%x" % ip)


def count(server, command, addr):
    n = 0
    while True:
        answer = server.ask(command)
        if is_edge(answer):
            return n
        if "swbreak" not in answer or server.pc() != addr:
            raise SystemExit("%x: stopped elsewhere: %s" % (addr, answer))
        n += 1


def points(addrs, server):
    for text in addrs:
        addr = int(text, 16)
        to_edge(server, "vCont;c")
        at_end = server.pc() == addr
        server.ask("Z0,%x,1" % addr)
        back = count(server, "bc", addr) + at_end
        at_begin = server.pc() == addr
        forwards = count(server, "vCont;c", addr) + at_begin
        server.ask("z0,%x,1" % addr)
        print(text, back, forwards)


def count_gaps(server, command):
    n = 0
    while not is_edge(server.ask(command)):
        n += server.said.startswith("gap in the trace: ")
    return n


def gaps(server):
    to_edge(server, "vCont;c")
    print(count_gaps(server, "bc"), count_gaps(server, "vCont;c"))


def interrupt(server):
    """The byte is there before the run has begun."""
    server.ask("Z0,1,1")        # never reached, so all of it is looked through
    places = []
    for command in (b"bc", b"vCont;c"):
        before = server.pc()
        server.process.stdin.write(b"$%s#%02x\x03" % (command, sum(command) & 0xff))
        print(server.packet()[:3], end=" ")
        places.append(server.pc() != before)
        print("edge" if is_edge(server.ask(command.decode())) else "?")
    if not any(places):
        raise SystemExit("it never came anywhere")


WORDS = ["g", "p10", "pffffffff", "m0,1000", "mffffffffffe00000,ffffffff", "m,", "Z0,", "Z9,1,1",
         "z0,1,1", "Hg0", "Hc-1", "Hgzz", "T1", "vCont;s", "vCont;c:0", "vCont", "vCont;r1,2",
         "bs", "bc", "b", "s", "c", "?", "qC", "qXfer:features:read:target.xml:0,fff",
         "qXfer:threads:read::fffffff,1", "qXfer:auxv:read:", "qXfer:libraries-svr4:read::0,ffffffffff",
         "qXfer:::::", "qRcmd,", "qRcmd,7", "qRcmd,68656c70", "qRcmd,7365656b20353025",
         "qRcmd,7365656b202d31", "qRcmd,7365656b20393939393939393939393939393939393939",
         "qRcmd,676170", "X0,0:", "M0,1:00", "qSupported", "", "vMustReplyEmpty", "QNone"]


def noise(seed, n, server):
    rng = random.Random(seed)
    for _ in range(n):
        kind = rng.random()
        if kind < 0.6:
            data = rng.choice(WORDS).encode()
        elif kind < 0.9:
            data = bytearray(rng.choice(WORDS).encode() + b":0,1")
            for _ in range(rng.randrange(3)):
                data[rng.randrange(len(data))] = rng.randrange(1, 256)
            data = bytes(c for c in data if c not in b"#$\x03")
        else:
            data = bytes(rng.choice(b"0123456789abcdef,:;mgZqvsHcTb")
                         for _ in range(rng.randrange(200)))
        if data[:1] in (b"D", b"k") or data.startswith((b"vKill", b"QStart")):
            continue
        server.send(data)
        server.packet()
    server.ask("Hg0")
    if not server.ask("?").startswith("T"):
        raise SystemExit("no answer at the end")
    server.send(b"D")
    server.process.stdin.close()
    raise SystemExit(server.process.wait())


def main():
    what, args = sys.argv[1], sys.argv[2:]
    if what == "walk":
        walk(Server(args))
    elif what == "points":
        points(args[0].split(","), Server(args[1:]))
    elif what == "interrupt":
        interrupt(Server(args))
    elif what == "gaps":
        gaps(Server(args))
    else:
        noise(int(args[0]), int(args[1]), Server(args[2:]))


main()
