/* Replays a trace from its standard input and prints every decision; tests/c_programs/replay.rs says what is in it. */
#include <fullpipe.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PACKETS 1000000u

static struct fullpipe_packet packets[MAX_PACKETS];
static uint64_t sent;
static struct fullpipe_controller *cc;

static void check(enum fullpipe_status status, const char *word)
{
    if (status != FULLPIPE_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", word, fullpipe_status_message(status));
        exit(1);
    }
}

static uint64_t number(void)
{
    const char *text = strtok(NULL, " \n");
    if (!text) {
        fprintf(stderr, "a number is missing\n");
        exit(1);
    }
    return strtoull(text, NULL, 10);
}

static const struct fullpipe_packet *packet(void)
{
    uint64_t which = number();
    return which < sent ? &packets[which] : NULL;
}

static void batch(void)
{
    check(fullpipe_ack_begin(cc, number()), "batch");
    for (const char *word; (word = strtok(NULL, " \n"));) {
        enum fullpipe_status status = FULLPIPE_STATUS_BAD_ARGUMENT;
        if (!strcmp(word, "acked")) {
            status = fullpipe_ack_acked(cc, packet());
        } else if (!strcmp(word, "acked_bytes")) {
            const struct fullpipe_packet *newest = packet();
            status = fullpipe_ack_acked_bytes(cc, newest, number());
        } else if (!strcmp(word, "late")) {
            status = fullpipe_ack_acked_after_loss(cc, packet());
        } else if (!strcmp(word, "lost")) {
            status = fullpipe_ack_lost(cc, packet());
        } else if (!strcmp(word, "gone")) {
            status = fullpipe_ack_discarded(cc, packet());
        } else if (!strcmp(word, "timeout")) {
            status = fullpipe_ack_timeout(cc);
        } else if (!strcmp(word, "ambiguous")) {
            status = fullpipe_ack_rtt_ambiguous(cc);
        } else if (!strcmp(word, "ce")) {
            status = fullpipe_ack_ce(cc, number());
        } else if (!strcmp(word, "resync")) {
            status = fullpipe_ack_resync_inflight(cc, number());
        } else if (!strcmp(word, "rtt")) {
            uint64_t rtt = number();
            status = fullpipe_ack_rtt(cc, rtt, number());
        }
        check(status, word);
    }
    check(fullpipe_ack_finish(cc), "finish");
}

static void print_decisions(void)
{
    struct fullpipe_control c;
    struct fullpipe_info i;
    check(fullpipe_get_control(cc, &c, sizeof c), "get_control");
    check(fullpipe_get_info(cc, &i, sizeof i), "get_info");
    uint64_t numbers[] = {
        c.cwnd, c.inflight, c.pacing_rate, c.send_quantum, i.is_cwnd_limited, i.app_limited,
        i.wants_ecn, i.full_bw_reached, i.delivered, i.lost, i.srtt, i.latest_rtt, i.ssthresh,
        i.initial_cwnd, i.burst_bound, i.send_buffer_windows, i.max_bw, i.bw, i.bw_shortterm,
        i.inflight_shortterm, i.inflight_longterm, i.min_rtt, i.bdp, i.extra_acked, i.max_inflight,
        i.round_count, i.pacing_gain_percent, i.cwnd_gain_percent,
    };
    printf("%s %s", i.algorithm, fullpipe_state_name(i.state));
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        printf(" %" PRIu64, numbers[n]);
    printf("\n");
}

/* One event, after its first word. */
static enum fullpipe_status event(const char *word, struct fullpipe_config *config)
{
    static const char *const kinds[] = {"now", "at", "limited"};
    if (!strcmp(word, "new")) {
        const char *algorithm = strtok(NULL, " \n");
        check(fullpipe_config_init(config, sizeof *config, number()), "config");
        config->pacing_granularity = number();
        return fullpipe_new(algorithm, config, 0, &cc);
    } else if (!strcmp(word, "algorithm")) {
        const char *algorithm = strtok(NULL, " \n");
        return fullpipe_set_algorithm(cc, algorithm, number(), config);
    } else if (!strcmp(word, "can_send")) {
        struct fullpipe_send_advice advice;
        enum fullpipe_status status = fullpipe_can_send(cc, number(), &advice, sizeof advice);
        printf("%s %" PRIu64 " %" PRIu64 " ", kinds[advice.kind], advice.quantum, advice.at);
        return status;
    } else if (!strcmp(word, "ready_at")) {
        uint64_t now = number(), at;
        enum fullpipe_status status = fullpipe_ready_at(cc, now, number(), &at);
        printf("%" PRIu64 " ", at);
        return status;
    } else if (!strcmp(word, "estimate")) {
        uint64_t rate;
        enum fullpipe_status status = fullpipe_send_rate_estimate(cc, &rate);
        printf("%" PRIu64 " ", rate);
        return status;
    } else if (!strcmp(word, "probe")) {
        uint64_t now = number();
        enum fullpipe_bandwidth_probe answer;
        enum fullpipe_status status = fullpipe_probe_bandwidth(cc, now, number(), &answer);
        printf("%d ", (int)answer);
        return status;
    } else if (!strcmp(word, "sent")) {
        uint64_t now = number();
        if (sent == MAX_PACKETS)
            return FULLPIPE_STATUS_BAD_ARGUMENT;
        return fullpipe_on_sent(cc, now, (uint32_t)number(), &packets[sent++]);
    } else if (!strcmp(word, "split")) {
        struct fullpipe_packet *whole = &packets[number()];
        return fullpipe_packet_split(whole, (uint32_t)number(), whole, &packets[sent++]);
    } else if (!strcmp(word, "batch")) {
        batch();
        return FULLPIPE_STATUS_OK;
    } else if (!strcmp(word, "spurious")) {
        return fullpipe_on_spurious_loss(cc, number());
    } else if (!strcmp(word, "app_limited")) {
        return fullpipe_on_app_limited(cc);
    } else if (!strcmp(word, "cwnd_limited")) {
        return fullpipe_on_cwnd_limited(cc);
    } else if (!strcmp(word, "forget_flight")) {
        return fullpipe_forget_flight(cc);
    } else if (!strcmp(word, "discarded")) {
        return fullpipe_on_discarded(cc, packet());
    } else if (!strcmp(word, "idle")) {
        uint64_t now = number();
        return fullpipe_on_idle(cc, now, number());
    } else if (!strcmp(word, "mtu")) {
        uint64_t now = number();
        return fullpipe_on_mtu_update(cc, now, (uint32_t)number(), config);
    } else if (!strcmp(word, "migration")) {
        uint64_t now = number();
        return fullpipe_on_migration(cc, now, number(), config);
    } else if (!strcmp(word, "ack_frequency")) {
        uint32_t threshold = (uint32_t)number();
        return fullpipe_on_ack_frequency(cc, threshold, number());
    }
    return FULLPIPE_STATUS_BAD_ARGUMENT;
}

int main(void)
{
    static char line[1 << 20];
    struct fullpipe_config config;
    while (fgets(line, sizeof line, stdin)) {
        const char *word = strtok(line, " \n");
        check(event(word, &config), word);
        print_decisions();
    }
    fullpipe_free(cc);
    return 0;
}
