# SPDX-License-Identifier: BSD-2-Clause
#
# A port of this machine as standard input and output: tcp.py PORT
import os
import socket
import sys
import threading

s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))


def send():
    while data := os.read(0, 65536):
        s.sendall(data)
    s.shutdown(socket.SHUT_WR)


threading.Thread(target=send, daemon=True).start()
while data := s.recv(65536):
    os.write(1, data)
