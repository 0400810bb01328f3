/*
 * A sender over a simulated link of 100 Mbit/s and 40 ms, in virtual time: the calls that a transport makes, in
 * their order. It loses one packet in a thousand, and prints what it reached.
 *
 *     cc sender.c $(pkg-config --cflags --libs fullpipe) -o sender && ./sender bbr3
 *
 * The names of the algorithms are printed for one that does not exist.
 */
#include <fullpipe.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PACKET 1200u
#define LINK_RATE 12500000u            /* bytes per second */
#define RTT 40000000u                  /* nanoseconds */
#define BUFFER 500000u                 /* bytes before the link: 1 BDP */
#define SECOND 1000000000u
#define END (10 * (uint64_t)SECOND)
#define FLIGHT 8192u                   /* more than fit into the link and its buffer */

/* A packet in flight: the library's state stands beside it. */
struct sent {
    struct fullpipe_packet state;
    uint64_t ack_at;
    int is_lost;
};

static void check(enum fullpipe_status status)
{
    if (status != FULLPIPE_STATUS_OK) {
        fprintf(stderr, "sender: %s\n", fullpipe_status_message(status));
        exit(2);
    }
}

int main(int argc, char **argv)
{
    const char *algorithm = argc > 1 ? argv[1] : "bbr3";
    static struct sent flight[FLIGHT];
    uint64_t oldest = 0, next = 0;
    uint64_t now = 0, link_free = 0, delivered = 0;

    struct fullpipe_config config;
    check(fullpipe_config_init(&config, sizeof config, 17)); /* another seed for each flow */
    config.smss = PACKET;
    struct fullpipe_controller *cc;
    enum fullpipe_status status = fullpipe_new(algorithm, &config, now, &cc);
    if (status == FULLPIPE_STATUS_UNKNOWN_ALGORITHM) {
        fprintf(stderr, "sender: '%s' is no algorithm; there are", algorithm);
        for (size_t i = 0; fullpipe_algorithm_name(i); i++)
            fprintf(stderr, " %s", fullpipe_algorithm_name(i));
        fprintf(stderr, "\n");
        return 2;
    }
    check(status);

    while (now < END) {
        /* Send while window and pacer allow it. */
        struct fullpipe_send_advice advice;
        check(fullpipe_can_send(cc, now, &advice, sizeof advice));
        while (advice.kind == FULLPIPE_SEND_KIND_NOW && next - oldest < FLIGHT) {
            struct sent *sent = &flight[next % FLIGHT];
            check(fullpipe_on_sent(cc, now, PACKET, &sent->state));
            uint64_t starts = link_free > now ? link_free : now;
            sent->is_lost = next % 1000 == 999 || (starts - now) / 80 > BUFFER;
            if (!sent->is_lost)
                link_free = starts + PACKET * (uint64_t)SECOND / LINK_RATE;
            sent->ack_at = starts + PACKET * (uint64_t)SECOND / LINK_RATE + RTT;
            next++;
            check(fullpipe_can_send(cc, now, &advice, sizeof advice));
        }

        /* Wait for the next ACK, or for the pacer. */
        uint64_t ack_at = next > oldest ? flight[oldest % FLIGHT].ack_at : UINT64_MAX;
        if (advice.kind == FULLPIPE_SEND_KIND_AT && advice.at < ack_at) {
            now = advice.at;
            continue;
        }
        now = ack_at;

        /* One batch for each ACK. A packet before an acknowledged one that is missing is lost. */
        check(fullpipe_ack_begin(cc, now));
        for (; oldest < next && flight[oldest % FLIGHT].ack_at <= now; oldest++) {
            const struct sent *sent = &flight[oldest % FLIGHT];
            if (sent->is_lost) {
                check(fullpipe_ack_lost(cc, &sent->state));
            } else {
                check(fullpipe_ack_acked(cc, &sent->state));
                delivered += PACKET;
            }
        }
        check(fullpipe_ack_finish(cc));
    }

    struct fullpipe_info info;
    check(fullpipe_get_info(cc, &info, sizeof info));
    printf("%s: %.1f Mbit/s, smoothed RTT %.1f ms, state %s\n", info.algorithm,
           (double)delivered * 8e3 / (double)END, (double)info.srtt / 1e6,
           fullpipe_state_name(info.state));
    fullpipe_free(cc);
    return 0;
}
