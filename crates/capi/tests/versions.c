/*
 * A flow of 2000 round trips, with the fields that each version of the header has. The test
 * compiles it with an older header, with the present one and with a newer one, which defines NEWER
 * and whose structs end with `more`. All print the same.
 */
#include <fullpipe.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 0x5au

/* A struct of the program's version, and what must stay behind it. */
#define GUARDED(type) \
    struct {          \
        struct type it; \
        unsigned char guard[64]; \
    }

static void check(int is_right, const char *what)
{
    if (!is_right) {
        fprintf(stderr, "versions: %s\n", what);
        exit(1);
    }
}

static void ok(enum fullpipe_status status)
{
    check(status == FULLPIPE_STATUS_OK, fullpipe_status_message(status));
}

static void untouched(const unsigned char *guard)
{
    for (int i = 0; i < 64; i++)
        check(guard[i] == GUARD, "the library wrote behind a struct");
}

int main(void)
{
    GUARDED(fullpipe_config) config;
    GUARDED(fullpipe_info) info;
    GUARDED(fullpipe_control) control;
    GUARDED(fullpipe_send_advice) advice;
    struct fullpipe_controller *cc;
    memset(&config, GUARD, sizeof config);
    memset(&info, GUARD, sizeof info);
    memset(&control, GUARD, sizeof control);
    memset(&advice, GUARD, sizeof advice);

    ok(fullpipe_config_init(&config.it, sizeof config.it, 5));
    untouched(config.guard);
    config.it.initial_cwnd = 24000;
#ifdef NEWER
    check(config.it.more == 0, "an unknown field is not 0");
    config.it.more = 1;
    enum fullpipe_status refused = fullpipe_new("bbr-swift", &config.it, 0, &cc);
    check(refused == FULLPIPE_STATUS_UNKNOWN_FIELD && !cc, "an unknown field is taken");
    fprintf(stderr, "%s\n", fullpipe_status_message(refused));
    config.it.more = 0;
#endif
    ok(fullpipe_new("bbr-swift", &config.it, 0, &cc));

    for (uint64_t round = 0; round < 2000; round++) {
        struct fullpipe_packet packets[20];
        uint64_t now = 300000 * round;
        ok(fullpipe_can_send(cc, now, &advice.it, sizeof advice.it));
        for (int i = 0; i < 20; i++)
            ok(fullpipe_on_sent(cc, now, 1200, &packets[i]));
        ok(fullpipe_ack_begin(cc, now + 300000));
        for (int i = 0; i < 20; i++)
            ok(fullpipe_ack_acked(cc, &packets[i]));
        ok(fullpipe_ack_receiver_delay(cc, round % 7 * 20000));
        ok(fullpipe_ack_finish(cc));
        ok(fullpipe_get_control(cc, &control.it, sizeof control.it));
        ok(fullpipe_get_info(cc, &info.it, sizeof info.it));
        untouched(advice.guard);
        untouched(control.guard);
        untouched(info.guard);
        printf("%d %" PRIu64 " %" PRIu64 " %s %s %" PRIu64 " %" PRIu64 " %zu\n", advice.it.kind,
               control.it.cwnd, control.it.pacing_rate, info.it.algorithm,
               fullpipe_state_name(info.it.state), info.it.srtt, info.it.send_buffer_windows,
               info.it.known);
    }
#ifdef NEWER
    check(info.it.more == 0 && offsetof(struct fullpipe_info, more) >= info.it.known &&
              control.it.more == 0 && offsetof(struct fullpipe_control, more) >= control.it.known &&
              advice.it.more == 0 && offsetof(struct fullpipe_send_advice, more) >= advice.it.known,
          "an unknown field is filled");
#endif
    fullpipe_free(cc);
    return 0;
}
