#!/usr/bin/env bash
# The program that scripts/deb-in-qemu.sh runs in the guest: as its service test, once a boot.
set -eE
# Also where a step's output goes elsewhere.
exec 3>&1
# The pause lets the console write what it has.
off() { sync; sleep 2; systemctl --force --force poweroff; exit 1; }
failed() {
    echo "== failed at line $1: $2"
    systemctl status --no-pager --full fullpipe-bbr3 || true
    off
}
trap 'failed "$LINENO" "$BASH_COMMAND" >&3 2>&3' ERR
cd /root
stage=$(cat stage 2>/dev/null || echo 1)
say() { echo "== $(cut -d' ' -f1 /proc/uptime) s: $*"; }
sysctl_of() { cat "/proc/sys/net/ipv4/$1"; }
default() { sysctl_of tcp_congestion_control; }
has_bbr3() { sysctl_of tcp_available_congestion_control | grep -qw bbr3; }
is() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; return 1; }; }
not() { ! "$@"; }

# All files but what the system itself writes all the time.
files() {
    find / -xdev \( -path /var/log -o -path /var/lib/dpkg -o -path /var/lib/systemd/timers -o -path /root -o -path /tmp \
        -o -path /var/tmp -o -path /var/cache -o -path /var/lib/systemd/random-seed \) -prune -o -print | sort
}

# What of the program is in the kernel, whoever holds it.
in_the_kernel() {
    bpftool prog list | grep -E ' name bbr3' || true
    bpftool map list | grep -E ' name (bbr3|flows|registration)' || true
    bpftool link list | grep -E 'struct_ops|iter' || true
    ls -A /sys/fs/bpf | grep fullpipe || true
}

nothing_is_left() {
    local i
    # The kernel frees what the last connection used when it gets to it.
    for i in $(seq 60); do
        [ -n "$(in_the_kernel)" ] || break
        sleep 0.5
    done
    is "$(in_the_kernel)" ""
    not has_bbr3
    is "$(default)" "$(cat default)"
    is "$(ls -d /run/fullpipe* 2>/dev/null || true)" ""
    is "$(systemctl list-unit-files 'fullpipe*' --no-legend || true)" ""
    is "$(dpkg-query -W -f '${Status}' fullpipe-bbr3 2>/dev/null || true)" ""
    files >files.after
    diff files.before files.after
}

# A kernel that cannot have it: the package installs, and the installation and the service say why.
refused() {
    local why=$1
    dpkg -i fullpipe-bbr3.deb >said 2>&1
    cat said
    grep -q "$why" said
    grep -q "once such a kernel runs" said
    is "$(systemctl is-failed fullpipe-bbr3)" failed
    journalctl --sync
    journalctl -u fullpipe-bbr3 --no-pager | grep -q "$why"
    not has_bbr3
}

# Sends over loopback on 20 connections until the file stop is there, and compares every byte. Its
# argument is the congestion control that the connections have without asking for one.
load() {
    rm -f stop started
    python3 - "$1" <<'PYTHON' &
import os, socket, sys, threading, time

expected, seconds = sys.argv[1], 120
listener = socket.create_server(("127.0.0.1", 0), backlog=64)
block = bytes(range(256)) * 64
problems, counts = [], []

def cc(s):
    return s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b"\0")[0].decode()

def receive(s):
    count = 0
    while data := s.recv(65536):
        at = count % 256
        if data != (block * 6)[at:at + len(data)]:
            problems.append("other bytes")
        count += len(data)
    counts.append(count)

def send():
    s = socket.create_connection(listener.getsockname())
    if cc(s) != expected:
        problems.append(f"it has {cc(s)} at its start")
    sent, end = 0, time.monotonic() + seconds
    while not os.path.exists("stop") and time.monotonic() < end:
        s.sendall(block)
        sent += len(block)
        time.sleep(0.05)
        open("started", "w").close()
    if cc(s) != expected:
        problems.append(f"it has {cc(s)} at its end")
    counts.append(-sent)
    s.close()

senders = [threading.Thread(target=send) for _ in range(20)]
for sender in senders:
    sender.start()
receivers = [threading.Thread(target=receive, args=(listener.accept()[0],)) for _ in senders]
for receiver in receivers:
    receiver.start()
for thread in senders + receivers:
    thread.join()
if sum(counts) != 0:
    problems.append("bytes are missing")
total = -sum(count for count in counts if count < 0)
print(f"{len(senders)} connections sent {total} bytes under {expected}; problems: {problems}")
sys.exit(bool(problems) or total == 0)
PYTHON
    sender=$!
    until [ -e started ]; do sleep 0.2; kill -0 $sender; done
}
end_load() { touch stop; wait $sender; }

case "$(cat kernel)-$stage" in
    6.1-*)
        say "Linux $(uname -r): too old"
        default >default
        files >files.before
        refused "6.4 or later is needed"
        dpkg --purge fullpipe-bbr3
        nothing_is_left
        say "purged"
        ;;
    *-1)
        say "Linux $(uname -r): without type information"
        default >default
        files >files.before
        mount -t tmpfs none /sys/kernel/btf
        refused "no type information"
        umount /sys/kernel/btf
        systemctl reset-failed fullpipe-bbr3
        systemctl start fullpipe-bbr3
        has_bbr3
        dpkg --purge fullpipe-bbr3
        nothing_is_left

        say "installing"
        dpkg -i fullpipe-bbr3.deb
        is "$(systemctl is-active fullpipe-bbr3) $(systemctl is-enabled fullpipe-bbr3)" "active enabled"
        has_bbr3
        is "$(default)" "$(cat default)"
        fullpipe-bbr3 status

        say "the default by the conffile"
        sed -i 's/^OPTIONS=.*/OPTIONS="--default --max-connections 1000"/' /etc/default/fullpipe-bbr3
        systemctl restart fullpipe-bbr3
        is "$(default)" bbr3

        say "installing once more, under load"
        load bbr3
        dpkg -i fullpipe-bbr3.deb
        is "$(systemctl is-active fullpipe-bbr3) $(default)" "active bbr3"
        grep -q max-connections /etc/default/fullpipe-bbr3
        end_load

        say "taken out by the service, and in again"
        systemctl stop fullpipe-bbr3
        not has_bbr3
        is "$(default)" "$(cat default)"
        systemctl start fullpipe-bbr3
        is "$(default)" bbr3
        say "both, and a default by sysctl.d"
        sed -i 's/^OPTIONS=.*/OPTIONS=""/; s/^ALGORITHM=.*/ALGORITHM="bbr3x bbr3"/' /etc/default/fullpipe-bbr3
        echo net.ipv4.tcp_congestion_control=bbr3 >/etc/sysctl.d/90-bbr3.conf
        echo 2 >stage
        sync
        say "rebooting"
        systemctl --no-block reboot
        exit
        ;;
    *-2)
        say "after the reboot"
        systemctl is-active fullpipe-bbr3
        is "$(default)" bbr3
        rm /etc/sysctl.d/90-bbr3.conf
        fullpipe-bbr3 status
        is "$(fullpipe-bbr3 status | grep -cE '^bbr3x?:')" 2
        ip netns add other
        is "$(ip netns exec other cat /proc/sys/net/ipv4/tcp_congestion_control)" bbr3

        say "purging under load"
        load bbr3
        # Both ends of each are here.
        is "$(fullpipe-bbr3 status | grep -c -- '->')" 40
        dpkg --purge fullpipe-bbr3
        not has_bbr3
        is "$(default)" "$(cat default)"
        is "$(ip netns exec other cat /proc/sys/net/ipv4/tcp_congestion_control)" "$(cat default)"
        # The connections go on with it.
        is "$(ss -tinH state established | grep -cw bbr3)" 40
        end_load
        ip netns del other
        nothing_is_left
        say "purged: nothing is left"
        ;;
esac
echo "== all is well"
off
