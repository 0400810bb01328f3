#!/usr/bin/env bash
# Installs the package fullpipe-bbr3 in a Debian with systemd and kernel 6.12, in QEMU, reboots it,
# and purges the package under load. Each step is checked; the first that fails ends it with exit
# code 1.
#
#   scripts/deb-in-qemu.sh                         # builds the package first, with scripts/deb.sh
#   DEB=fullpipe-bbr3.deb scripts/deb-in-qemu.sh   # this package
#   KERNEL=6.1 scripts/deb-in-qemu.sh              # one that is too old: the package installs, and says what is missing
#
# Needs root on Debian 12 or later, mmdebstrap, qemu-system-x86 and e2fsprogs. Downloads 100 MB from
# Debian's archive (or from MIRROR), and takes about ten minutes. GUEST names a directory that keeps
# the bare system for the next time.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
kernel=${KERNEL:-6.12}
mirror=${MIRROR:-http://deb.debian.org/debian}

die() { printf 'deb-in-qemu.sh: %s\n' "$*" >&2; exit 1; }
for tool in mmdebstrap qemu-system-x86_64 mke2fs; do
    command -v "$tool" >/dev/null || die "$tool is not here (apt-get install mmdebstrap qemu-system-x86 e2fsprogs)"
done
[ "$(id -u)" = 0 ] || die "it needs root, for the owners of the system's files"
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[ -n "$release" ] || die "/etc/os-release names no release of Debian"

work=$(mktemp -d)
machine=
stop() { [ -z "$machine" ] || kill "$machine" 2>/dev/null || true; rm -rf "$work"; }
trap stop EXIT
trap 'exit 130' INT TERM

deb=${DEB:-}
[ -n "$deb" ] || deb=$("$here/scripts/deb.sh" "$work" | tail -n 1)
[ -s "$deb" ] || die "there is no package '$deb'"

# The bare system. Python sends and receives under the load; bpftool tells what is in the kernel.
base=${GUEST:-$work}/$release-$kernel.tar
if [ ! -e "$base" ]; then
    mkdir -p "$(dirname "$base")"
    image=linux-image-$kernel-cloud-amd64
    # Debian's own kernel has no number in the name of its package.
    apt-cache show "$image" >/dev/null 2>&1 || image=linux-image-cloud-amd64
    mmdebstrap --quiet --format=tar --variant=essential --aptopt='Apt::Install-Recommends "false"' \
        --include="systemd-sysv,$image,initramfs-tools,zstd,python3-minimal,iproute2,bpftool,libelf1,zlib1g" \
        "$release" "$base.new" "deb $mirror $release main" "deb $mirror $release-updates main" \
        "deb $mirror-security $release-security main" </dev/null
    mv "$base.new" "$base"
fi

root=$work/root
mkdir "$root"
tar -xf "$base" -C "$root"
compgen -G "$root/boot/vmlinuz-$kernel.*" >/dev/null || die "$release has no kernel $kernel, but $(cd "$root/boot" && echo vmlinuz-*)"
cp "$deb" "$root/root/fullpipe-bbr3.deb"
cp "$here/scripts/deb-in-qemu.guest.sh" "$root/root/test.sh"
echo "$kernel" >"$root/root/kernel"
echo guest >"$root/etc/hostname"
echo "/dev/vda / ext4 rw 0 1" >"$root/etc/fstab"
# A login there would hang the test's terminal up.
ln -s /dev/null "$root/etc/systemd/system/serial-getty@ttyS0.service"
cat >"$root/etc/systemd/system/test.service" <<'UNIT'
[Unit]
Description=The test
After=multi-user.target

[Service]
Type=oneshot
ExecStart=/bin/bash /root/test.sh
StandardOutput=tty
StandardError=inherit
TTYPath=/dev/ttyS0
TimeoutStartSec=infinity
Environment=PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
UNIT
mkdir -p "$root/etc/systemd/system/graphical.target.wants"
ln -s ../test.service "$root/etc/systemd/system/graphical.target.wants/test.service"
ln -sf /lib/systemd/system/graphical.target "$root/etc/systemd/system/default.target"
mke2fs -q -F -t ext4 -d "$root" "$work/disk" 1200M >/dev/null
cp "$root"/boot/vmlinuz-* "$work/vmlinuz"
cp "$root"/boot/initrd.img-* "$work/initrd"
rm -rf "$root"

# In virtual time: one nanosecond an instruction, and no time passes while nothing is to do. A busy
# machine changes nothing.
timeout 1500 qemu-system-x86_64 -accel tcg -icount shift=0,sleep=off -cpu max -smp 1 -m 1024 -display none -nodefaults -serial "file:$work/console" \
    -drive "file=$work/disk,format=raw,if=virtio,cache=unsafe" -kernel "$work/vmlinuz" -initrd "$work/initrd" \
    -append "root=/dev/vda rw console=ttyS0 quiet mitigations=off no_timer_check panic=-1" &
machine=$!
touch "$work/console"
tail -f --pid=$machine -n +1 "$work/console" | sed -u 's/\r//g' || true
wait $machine || die "the machine did not end by itself"
machine=
grep -q '^== all is well' "$work/console" || die "a step failed"
