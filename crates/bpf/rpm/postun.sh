if command -v systemctl >/dev/null; then
    systemctl daemon-reload || :
    # An upgrade: connections keep the earlier program until they close.
    if [ "$1" -ge 1 ]; then systemctl try-restart fullpipe-bbr3.service || :; fi
fi
