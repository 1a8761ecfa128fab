"""Machines that are network namespaces, for the peers' scripts: NAMESPACE@ADDRESS,NAMESPACE@ADDRESS,…"""
import ctypes
import os
import socket

CLONE_NEWNET = 0x40000000


def machines(text):
    """The (namespace, address) of each machine."""
    return [tuple(machine.split("@")) for machine in text.split(",")]


def enter(namespace):
    """Moves this process, which must not have opened a socket, to a machine."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"the namespace {namespace} cannot be entered")
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"


def addresses(count, listed):
    """Where `count` tasks listen, and the namespace of each: on these machines, or on loopback."""
    if listed:
        chosen = machines(listed)[:count]
        return [f"{address}:2222" for _, address in chosen], [namespace for namespace, _ in chosen]
    holders = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [f"localhost:{holder.getsockname()[1]}" for holder in holders]
    for holder in holders:
        holder.close()
    return found, [None] * count
