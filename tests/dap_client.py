# SPDX-License-Identifier: BSD-2-Clause
#
# An editor's debugger without an editor: speaks the Debug Adapter Protocol with
# auxdecode dap, and checks each answer against what the protocol says of it.
import json
import random
import subprocess
import sys


class Client:
    def __init__(self, argv):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, bufsize=0)
        self.seq, self.buf, self.events = 0, b"", []

    def send_bytes(self, data):
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))

    def more(self):
        data = self.process.stdout.read(65536)
        if not data:
            raise SystemExit("the adapter is gone: %s" % self.process.wait())
        self.buf += data

    def message(self):
        while b"\r\n\r\n" not in self.buf:
            self.more()
        head, rest = self.buf.split(b"\r\n\r\n", 1)
        n = int(head.split(b":")[1])
        while len(rest) < n:
            self.more()
            rest = self.buf.split(b"\r\n\r\n", 1)[1]
        self.buf = rest[n:]
        return json.loads(rest[:n])

    def ask(self, command, **args):
        """The body of the response; None: it failed, and self.error says why."""
        self.seq += 1
        self.send_bytes(json.dumps({"seq": self.seq, "type": "request",
                                    "command": command, "arguments": args}).encode())
        while True:
            m = self.message()
            if m["type"] == "event":
                self.events.append(m)
                continue
            assert m["type"] == "response" and m["request_seq"] == self.seq, m
            assert m["command"] == command, m
            self.error = m.get("message")
            return m.get("body", {}) if m["success"] else None

    def event(self, name):
        while True:
            for i, m in enumerate(self.events):
                if m["event"] == name:
                    del self.events[i]
                    return m.get("body", {})
            m = self.message()
            assert m["type"] == "event", m
            self.events.append(m)

    def go(self, command, **args):
        """A request that moves, and where it stopped."""
        if self.ask(command, threadId=self.thread, **args) is None:
            raise SystemExit("%s: %s" % (command, self.error))
        stop = self.event("stopped")
        self.thread = stop["threadId"]
        return stop["reason"]

    def begin(self, **launch):
        caps = self.ask("initialize", adapterID="auxkit", linesStartAt1=True)
        assert caps["supportsStepBack"] and caps["supportsDisassembleRequest"]
        if self.ask("launch", **launch) is None:
            raise SystemExit("launch: %s" % self.error)
        self.event("initialized")
        self.ask("setExceptionBreakpoints", filters=["gap"])
        self.ask("configurationDone")
        stop = self.event("stopped")
        self.thread = stop["threadId"]
        return stop

    def stack(self):
        frames = self.ask("stackTrace", threadId=self.thread)
        assert frames["totalFrames"] == len(frames["stackFrames"])
        for f in frames["stackFrames"]:
            assert isinstance(f["id"], int) and f["name"] and "line" in f and "column" in f
        return [(f["name"], f["line"]) for f in frames["stackFrames"]]

    def where(self):
        frame = self.ask("stackTrace", threadId=self.thread, startFrame=0,
                         levels=1)["stackFrames"][0]
        return frame["name"], frame["line"], int(frame["instructionPointerReference"], 0)

    def end(self):
        self.ask("disconnect")
        self.process.stdin.close()
        return self.process.wait()


def up_to_main(stack):
    names = [name for name, _ in stack]
    return names[:names.index("main") + 1] if "main" in names else names


def walk(c, source, line):
    """Forwards by line through all of the program, then back; the lines that were passed
    are the same, but for those of loops that are one instruction long."""
    c.begin(at="begin")
    bp = c.ask("setFunctionBreakpoints", breakpoints=[{"name": "main"}])["breakpoints"]
    assert bp[0]["verified"], bp
    assert c.go("continue") == "breakpoint"
    c.ask("setFunctionBreakpoints", breakpoints=[])
    assert c.where()[0] == "main", c.where()
    # a breakpoint on a line, as often as the line begins
    bp = c.ask("setBreakpoints", source={"path": source}, breakpoints=[{"line": line}])
    bp = bp["breakpoints"][0]
    assert bp["verified"] and bp["line"] == line, bp
    hits = 0
    while c.go("continue") == "breakpoint":
        assert c.where()[1] == line, c.where()
        hits += 1
    back = 0
    while c.go("reverseContinue") == "breakpoint":
        back += 1
    print("hits", hits, back)
    # the third time alone
    c.ask("setBreakpoints", source={"path": source},
          breakpoints=[{"line": line, "hitCondition": "3"}])
    assert c.go("continue") == "breakpoint"
    print("stack", ">".join(up_to_main(c.stack())))
    c.ask("setBreakpoints", source={"path": source}, breakpoints=[])
    c.go("stepOut")
    print("out", *c.where()[:2])
    while c.where()[0] != "main":
        c.go("next")
    steps = []
    for _ in range(12):
        assert c.go("next") == "step"
        steps.append(c.where())
    back = []
    for _ in range(len(steps) - 1):
        c.go("stepBack")
        back.append(c.where())
    print("lines", " ".join("%s:%d" % s[:2] for s in steps))
    if back[::-1] != steps[:-1]:
        raise SystemExit("back: %s\nforwards: %s" % (back[::-1], steps))
    # by instruction, into calls and back
    pcs = [c.where()[2]]
    for _ in range(200):
        c.go("stepIn", granularity="instruction")
        pcs.append(c.where()[2])
    for pc in pcs[-2::-1]:
        c.go("stepBack", granularity="instruction")
    # what runs is in the listing, with its neighbours
    pc = c.where()[2]
    for back, n in ((-2, 8), (0, 3), (2, 2)):
        text = c.ask("disassemble", memoryReference=hex(pc), instructionOffset=back,
                     instructionCount=n)["instructions"]
        assert len(text) == n, text
        addrs = [int(i["address"], 0) for i in text]
        assert addrs == sorted(addrs) and (back > 0 or addrs[-back] == pc), text
    memory = c.ask("readMemory", memoryReference=hex(pc), count=8)
    assert int(memory["address"], 0) == pc and len(memory["data"]) == 12, memory
    scope = c.ask("scopes", frameId=1)["scopes"][0]
    names = [v["name"] for v in c.ask("variables", variablesReference=scope[
        "variablesReference"])["variables"]]
    assert names[:2] == ["pc", "time"], names
    assert c.ask("evaluate", expression="x + 1") is None and "no trace" in c.error
    assert c.ask("evaluate", expression="seek 50%")["result"] == "there"
    assert c.event("stopped")["reason"] == "goto"
    bp = c.ask("setBreakpoints", source={"path": source},
               breakpoints=[{"line": line, "condition": "x > 3"}])["breakpoints"][0]
    assert not bp["verified"] and "tid == N" in bp["message"], bp
    print("status", c.end())


def noise(c, seed, n):
    rng = random.Random(seed)
    commands = ["continue", "next", "stepIn", "stepBack", "stepOut", "stackTrace",
                "threads", "scopes", "variables", "disassemble", "readMemory", "evaluate",
                "setBreakpoints", "setFunctionBreakpoints", "setInstructionBreakpoints",
                "setExceptionBreakpoints", "pause", "launch", "nonsense", "reverseContinue"]
    values = [None, True, -1, 0, 1, 2 ** 31, 2 ** 63 - 1, 1e300, "", "0x0", "main", "x" * 500,
              [], [{}], [{"line": -1}], [{"name": 3}], [{"instructionReference": "0x"}],
              {}, {"path": "/x.c"}, {"path": None}, "seek 50%", "seek -1", "where"]
    keys = ["threadId", "startFrame", "levels", "granularity", "memoryReference", "offset",
            "instructionOffset", "instructionCount", "count", "expression", "source",
            "breakpoints", "filters", "recording", "pid", "at", "variablesReference"]
    c.begin()
    for _ in range(n):
        kind = rng.random()
        if kind < 0.9:
            c.ask(rng.choice(commands), **{rng.choice(keys): rng.choice(values)
                                           for _ in range(rng.randrange(5))})
        else:
            c.send_bytes(bytes(rng.choice(b'{}[]":,0123456789aeflnrstu \\')
                               for _ in range(rng.randrange(1, 100))))
    assert c.ask("threads")["threads"]
    return c.end()


def main():
    what, args = sys.argv[1], sys.argv[2:]
    if what == "walk":
        walk(Client(args[2:]), args[0], int(args[1]))
    else:
        raise SystemExit(noise(Client(args[2:]), int(args[0]), int(args[1])))


main()
