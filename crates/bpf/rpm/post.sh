# The reason why a kernel cannot have it, before the service fails for it. The next kernel may do.
fullpipe-bbr3 check || echo "fullpipe-bbr3: the service loads it once such a kernel runs" >&2
if command -v systemctl >/dev/null; then
    systemctl daemon-reload || :
    # By the distribution's presets, at the first installation: most leave it off.
    if [ "$1" = 1 ]; then systemctl --no-reload preset fullpipe-bbr3.service || :; fi
fi
