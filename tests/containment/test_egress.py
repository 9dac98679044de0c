"""Functions with network egress: what they reach, and what not. The server, and an internet of a few addresses, are in network namespaces made for it."""

import os
import shutil
import socket
import subprocess
import sys
import unittest

from flint_server import Server, assert_nothing_left, wait_for

TOOLS = ("nft", "ip", "unshare", "nsenter")
# With root's commands, which are not on every PATH.
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"

PUBLIC = [("203.0.113.1", 80), ("198.51.100.7", 80)]
# Beyond the host as well: a private network, and the metadata of clouds.
BLOCKED = [("10.9.9.9", 80), ("169.254.169.254", 80)]
HOST = "203.0.113.2"

# Listens on port 80 of every address once there is a network, until its stdin ends.
INTERNET = """
import socket, sys
sys.stdin.readline()
kept = [socket.create_server((address, 80)) for address in sys.argv[1:]]
print('up', flush=True)
sys.stdin.read()
"""

FUNCTION = """
import socket
from concurrent.futures import ThreadPoolExecutor

def reaches(address):
    try:
        with socket.create_connection(address, timeout=10): return True
    except OSError: return False

def main(params):
    addresses = params['addresses']
    with ThreadPoolExecutor(len(addresses)) as pool:
        return {'reached': [address for address, is_reached in zip(addresses, pool.map(reaches, addresses)) if is_reached]}
"""


def sh(script):
    subprocess.run(["/bin/sh", "-ec", script], check=True, env={**os.environ, "PATH": PATH})


def can_be_checked():
    """Whether namespaces can be made here."""
    tools = all(shutil.which(tool, path=PATH) for tool in TOOLS)
    return tools and subprocess.run(["unshare", "--net", "true"], stderr=subprocess.DEVNULL).returncode == 0


class Egress(unittest.TestCase):
    def test_functions_reach_the_internet_and_nothing_of_their_host(self):
        if not can_be_checked():
            print("not checked: network egress, which takes root and the commands " + ", ".join(TOOLS), flush=True)
            return
        done = subprocess.run(["unshare", "--net", sys.executable, __file__], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)


class Internet:
    """Beyond a link of this network namespace, which becomes the host's."""

    def __init__(self):
        addresses = [address for address, _ in PUBLIC + BLOCKED]
        command = ["unshare", "--net", sys.executable, "-c", INTERNET, *addresses]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        # `unshare` becomes Python in its new namespace, so its process id is the one to move the link to.
        theirs = f"/proc/{self.process.pid}/ns/net"
        wait_for(lambda: os.readlink(theirs) != os.readlink("/proc/self/ns/net"), 120, "a network namespace")
        beyond = "; ".join(f"ip addr add {address}/24 dev isp0" for address in addresses)
        sh(
            f"ip link set lo up; ip link add up0 type veth peer name isp0; ip link set isp0 netns {self.process.pid}; ip link set up0 up; "
            f"ip addr add {HOST}/24 dev up0; ip route add default via {PUBLIC[0][0]}; "
            f"nsenter --net={theirs} /bin/sh -ec 'ip link set lo up; ip link set isp0 up; {beyond}'"
        )
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "up\n"

    def end(self):
        self.process.communicate()


def reached_from_here(addresses):
    def reaches(address):
        try:
            with socket.create_connection(address, timeout=60):
                return True
        except OSError:
            return False

    return [address for address in addresses if reaches(address)]


def check(server, key):
    """In a network namespace with an internet, against a server that listens on every address of it."""
    with socket.create_server(("0.0.0.0", 0)) as listener:
        ports = (server.port, listener.getsockname()[1])
        own = [(address, port) for address in (HOST, "127.0.0.1") for port in ports]
        # All of them can be reached from where nothing forbids it.
        there = PUBLIC + BLOCKED + own
        assert reached_from_here(there) == there, reached_from_here(there)
        # The gateway of sandboxes is the host, too.
        addresses = there + [("198.18.0.1", port) for port in ports]
        code = server.scratch / "reach.py"
        code.write_text(FUNCTION)
        for start in ("fork", "spawn"):
            for network, expected in (("egress", PUBLIC), ("none", [])):
                deployed = server.cli("deploy", str(code), "--network", network, "--start", start, "--auth", key)
                assert deployed.returncode == 0, deployed
                answer = server.request("POST", "/v1/functions/reach/invoke", {"addresses": addresses}, auth=key)
                assert answer.status == 200, answer
                reached = [tuple(address) for address in answer.json()["reached"]]
                assert reached == expected, f"{start}, network {network}: {reached}"


def main():
    internet = Internet()
    server = Server(listen="0.0.0.0")
    made = server.cli("namespace", "create", "callers", "--data-dir", str(server.data_dir))
    assert made.returncode == 0, made
    server.start()
    try:
        check(server, made.stdout.decode().strip())
    finally:
        server.stop()
    assert_nothing_left(server)
    server.remove()
    tables = subprocess.run(["nft", "list", "tables"], check=True, stdout=subprocess.PIPE, env={**os.environ, "PATH": PATH})
    assert tables.stdout == b"", tables
    internet.end()


if __name__ == "__main__":
    main()
