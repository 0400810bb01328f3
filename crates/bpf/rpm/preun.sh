if [ "$1" = 0 ]; then
    if command -v systemctl >/dev/null; then systemctl --no-reload disable --now fullpipe-bbr3.service || :; fi
    # The service has unloaded it. This is for what was loaded or used by hand, and for systems without systemd.
    if [ -d /sys/fs/bpf/fullpipe ] || [ -d /sys/fs/bpf/fullpipe-use ]; then
        fullpipe-bbr3 unload || echo "fullpipe-bbr3: the program stays in the kernel until the next boot" >&2
    fi
fi
