/*
 * Congestion control for any transport: BBRv3, BBRv1, CUBIC and NewReno.
 *
 * Every time is in nanoseconds of one monotonic clock of the caller's, every volume in bytes, every
 * rate in bytes per second. Bytes count as the transport counts its packet size: QUIC's datagrams
 * without IP and UDP, TCP's payload.
 *
 * Functions that can fail return an enum fullpipe_status. On an error nothing has changed, except
 * after FULLPIPE_STATUS_PANICKED. Pointers are NULL, which is an error, or valid. One controller
 * must not be used by two threads at once; different controllers are independent.
 *
 * Structs grow at their ends, and a program says the size of its own: `sizeof`. A field of a
 * configuration that an older program does not have is the default. One that this library does not
 * know has to be 0 in a configuration, and is 0 in what is filled.
 *
 * Made by cbindgen from crates/capi; do not edit.
 */

#ifndef FULLPIPE_H
#define FULLPIPE_H

#include <stddef.h>
#include <stdint.h>

// The version of this header.
#define FULLPIPE_VERSION "0.1.0"

// The value of a field that is absent: a limit that is not set, an estimate that does not exist
// yet, or one that the algorithm does not have.
#define FULLPIPE_NONE UINT64_MAX

// A QUIC flow: one quantum of offload budget.
#define FULLPIPE_TRANSPORT_QUIC 0

// A TCP flow: three quanta of offload budget.
#define FULLPIPE_TRANSPORT_TCP 1

// `cubic` follows RFC 9438, with the slow start of RFC 9406.
#define FULLPIPE_CUBIC_RFC9438 0

// `cubic` follows Linux.
#define FULLPIPE_CUBIC_LINUX 1

// The result of a call.
enum fullpipe_status {
    // The call had its effect.
    FULLPIPE_STATUS_OK,
    // A pointer is NULL.
    FULLPIPE_STATUS_NULL,
    // No algorithm has this name.
    FULLPIPE_STATUS_UNKNOWN_ALGORITHM,
    // A field of the configuration is out of its range.
    FULLPIPE_STATUS_BAD_CONFIG,
    // An argument is out of its range.
    FULLPIPE_STATUS_BAD_ARGUMENT,
    // A packet was not made by `fullpipe_on_sent`.
    FULLPIPE_STATUS_BAD_PACKET,
    // The call is not allowed before `fullpipe_ack_finish`.
    FULLPIPE_STATUS_BATCH_OPEN,
    // The call is not allowed before `fullpipe_ack_begin`.
    FULLPIPE_STATUS_NO_BATCH,
    // A defect of the library. Every further call on the controller except `fullpipe_free` returns
    // this.
    FULLPIPE_STATUS_PANICKED,
    // The size of a struct is less than that of its first version, above 4096, or no multiple of
    // its alignment.
    FULLPIPE_STATUS_BAD_SIZE,
    // The program's struct is newer than this library, and a field is not 0 that the library does
    // not know.
    FULLPIPE_STATUS_UNKNOWN_FIELD,
};

// The three answers to a transport that wants to send a packet.
enum fullpipe_send_kind {
    // Up to `quantum` bytes may leave at once; at least one full packet.
    FULLPIPE_SEND_KIND_NOW,
    // The pacer has no credit for a full packet before `at`.
    FULLPIPE_SEND_KIND_AT,
    // The window is full: wait for an ACK or a loss.
    FULLPIPE_SEND_KIND_CWND_LIMITED,
};

// The answer to an application that would send at a higher rate.
enum fullpipe_bandwidth_probe {
    // `fullpipe_send_rate_estimate` is at the target already.
    FULLPIPE_BANDWIDTH_PROBE_REACHED,
    // The algorithm takes more data now, and learns from it.
    FULLPIPE_BANDWIDTH_PROBE_PROBING,
    // Not now: no round trip is measured yet.
    FULLPIPE_BANDWIDTH_PROBE_NO_ROUND_TRIP,
    // Not now: the queue of an earlier probe, or of Startup, is not empty yet.
    FULLPIPE_BANDWIDTH_PROBE_DRAINING,
    // Not now: BBR measures the round trip of the empty path.
    FULLPIPE_BANDWIDTH_PROBE_PROBE_RTT,
    // Not now: a loss-based algorithm recovers from a loss or a mark.
    FULLPIPE_BANDWIDTH_PROBE_CONGESTION,
    // Not now: the newest probe was too short a time ago.
    FULLPIPE_BANDWIDTH_PROBE_TOO_SOON,
    // Never: the target is above `max_pacing_rate`, or the rate is fixed.
    FULLPIPE_BANDWIDTH_PROBE_LIMIT,
    // Not now, for a reason that this interface has no name for.
    FULLPIPE_BANDWIDTH_PROBE_OTHER,
};

// The state of an algorithm. BBR's states carry the draft's names.
enum fullpipe_state {
    // BBR: doubling the rate each round.
    FULLPIPE_STATE_STARTUP,
    // BBR: emptying the queue that Startup built.
    FULLPIPE_STATE_DRAIN,
    // BBR: sending a little slower than the path delivers.
    FULLPIPE_STATE_PROBE_BW_DOWN,
    // BBR: sending at the delivery rate.
    FULLPIPE_STATE_PROBE_BW_CRUISE,
    // BBR: one round at the full rate before the probe.
    FULLPIPE_STATE_PROBE_BW_REFILL,
    // BBR: sending faster than the path delivered so far.
    FULLPIPE_STATE_PROBE_BW_UP,
    // BBRv1: its cycle of eight phases.
    FULLPIPE_STATE_PROBE_BW,
    // BBR: little in flight, to see the path without a queue.
    FULLPIPE_STATE_PROBE_RTT,
    // CUBIC and Reno: doubling the window each round.
    FULLPIPE_STATE_SLOW_START,
    // CUBIC and Reno: slow start at a quarter of its growth (RFC 9406).
    FULLPIPE_STATE_CONSERVATIVE_SLOW_START,
    // CUBIC and Reno: the window has a slow-start threshold behind it.
    FULLPIPE_STATE_CONGESTION_AVOIDANCE,
    // CUBIC and Reno: the round after a congestion event.
    FULLPIPE_STATE_RECOVERY,
    // A state that this interface has no name for.
    FULLPIPE_STATE_OTHER,
};

// Congestion control of one flow on one path.
struct fullpipe_controller;

// State of a packet. Keep it beside the packet from `fullpipe_on_sent` until the packet is
// acknowledged, lost or discarded, and do not change it. It can be copied. Its size is the same in
// all versions of this interface.
struct fullpipe_packet {
    // Private to the library.
    uint64_t opaque[6];
};

// The numbers that belong to the transport and not to the algorithm. Call `fullpipe_config_init`,
// then change what differs. An older program may have fewer fields, down to those before
// `swift_base_target`: the others have their defaults.
struct fullpipe_config {
    // The size of the program's struct. Where the library's is smaller, what it does not know has
    // to be 0.
    size_t size;
    // Seed of the randomised probe times. Each flow needs another one.
    uint64_t seed;
    // Initial window in bytes, up to 16 GiB. FULLPIPE_NONE: that of RFC 9002 section 7.2.
    uint64_t initial_cwnd;
    // The round trip that the handshake measured, at least 1 ns. FULLPIPE_NONE: there was none.
    uint64_t handshake_rtt;
    // Delay of the transport's timer that costs no rate before any was measured, up to 4.29 s.
    uint64_t pacing_granularity;
    // The most that the pacing rate may be, at least 1. FULLPIPE_NONE: no limit.
    uint64_t max_pacing_rate;
    // Requested Max Ack Delay of draft-ietf-quic-ack-frequency, if `ack_threshold` is not 0.
    uint64_t max_ack_delay;
    // Ack-Eliciting Threshold in packets. 0: the receiver was not asked for another frequency.
    uint32_t ack_threshold;
    // Maximum packet size, 1 to 131071 bytes.
    uint32_t smss;
    // FULLPIPE_TRANSPORT_QUIC or FULLPIPE_TRANSPORT_TCP.
    uint32_t transport;
    // FULLPIPE_CUBIC_RFC9438 or FULLPIPE_CUBIC_LINUX.
    uint32_t cubic_rules;
    // 1 if the transport sees more than one loss in a round trip, else 0.
    uint8_t has_selective_acks;
    // 1 if `cubic` and `reno` are paced, else 0. The others always are.
    uint8_t paced;
    // 1 if `bbr1` widens its window by the aggregation of ACKs, else 0.
    uint8_t bbr1_ack_aggregation;
    // 1 if CE marks on the path mean low-latency ECN, which `bbr3-linux` answers, else 0.
    uint8_t ecn;
    // 0: room for later fields.
    uint8_t reserved[4];
    // `bbr-swift`: the network RTT at which a flow with a large window is content, over one hop.
    // With `swift_hops` times `swift_hop_delay` up to 4 s; each of the next four up to 4 s as
    // well.
    uint64_t swift_base_target;
    // `bbr-swift`: the part of that target for each hop.
    uint64_t swift_hop_delay;
    // `bbr-swift`: the most that the flow scaling adds to the target.
    uint64_t swift_flow_scaling_range;
    // `bbr-swift`: the delay in the receiver's host at which a flow is content.
    uint64_t swift_endpoint_target;
    // `bbr-swift`: the longest delay at the receiver, in its host and on purpose together, that is
    // believed.
    uint64_t swift_max_receiver_delay;
    // `bbr-swift`: the switches between the ends, up to 255.
    uint64_t swift_hops;
};

// The answer to a transport that wants to send a packet.
struct fullpipe_send_advice {
    // The size of this struct in the library. A program's field beyond it is 0.
    size_t known;
    // The kind of the answer.
    enum fullpipe_send_kind kind;
    // Bytes that may leave at once, for FULLPIPE_SEND_KIND_NOW; else 0.
    uint64_t quantum;
    // Time of the next send, for FULLPIPE_SEND_KIND_AT; else 0.
    uint64_t at;
};

// Control parameters.
struct fullpipe_control {
    // The size of this struct in the library. A program's field beyond it is 0.
    size_t known;
    // Congestion window in bytes.
    uint64_t cwnd;
    // Bytes in flight.
    uint64_t inflight;
    // Pacing rate in bytes per second. FULLPIPE_NONE: the algorithm leaves pacing to the
    // transport.
    uint64_t pacing_rate;
    // The largest aggregate in bytes to hand to the network as one.
    uint64_t send_quantum;
};

// The model of a flow. FULLPIPE_NONE stands for what the algorithm does not have, what is not
// measured yet, and what the draft calls infinite. An older program may have fewer fields, down to
// those before `max_bw`.
struct fullpipe_info {
    // The size of this struct in the library. A program's field beyond it is 0.
    size_t known;
    // The algorithm's name. The string is static.
    const char *algorithm;
    // The algorithm's state.
    enum fullpipe_state state;
    // 1 if the window was fully used at any point of the last round trip, else 0.
    uint8_t is_cwnd_limited;
    // 1 while the newest rate samples are limited by the application, else 0.
    uint8_t app_limited;
    // 1 if the algorithm answers CE marks, else 0. With 0 the transport must not mark its packets
    // as ECN-capable.
    uint8_t wants_ecn;
    // BBR: 1 if the pipe was ever estimated full, else 0.
    uint8_t full_bw_reached;
    // Bytes delivered so far.
    uint64_t delivered;
    // Bytes marked lost so far.
    uint64_t lost;
    // Smoothed round-trip time of RFC 9002.
    uint64_t srtt;
    // The newest round-trip sample.
    uint64_t latest_rtt;
    // Slow-start threshold in bytes, for CUBIC and Reno.
    uint64_t ssthresh;
    // Initial window in bytes.
    uint64_t initial_cwnd;
    // The largest burst in bytes that the pacer lets pass.
    uint64_t burst_bound;
    // The size of the transport's send buffer, in windows, with which it never runs empty.
    uint64_t send_buffer_windows;
    // BBR: windowed maximum of the delivery-rate samples.
    uint64_t max_bw;
    // BBR: estimated bandwidth, with its short-term bound.
    uint64_t bw;
    // BBR: short-term bound on the rate.
    uint64_t bw_shortterm;
    // BBR: short-term bound on the bytes in flight.
    uint64_t inflight_shortterm;
    // BBR: long-term bound on the bytes in flight.
    uint64_t inflight_longterm;
    // BBR: windowed minimum of the round-trip samples.
    uint64_t min_rtt;
    // BBR: `bw` times `min_rtt`, in bytes.
    uint64_t bdp;
    // BBR: estimated aggregation of ACKs in bytes.
    uint64_t extra_acked;
    // BBR: the volume in bytes that fully uses the path.
    uint64_t max_inflight;
    // BBR: packet-timed round trips so far.
    uint64_t round_count;
    // BBR: gain of the pacing rate in hundredths; 0 for other algorithms.
    uint32_t pacing_gain_percent;
    // BBR: gain of the window in hundredths; 0 for other algorithms.
    uint32_t cwnd_gain_percent;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the name of the algorithm with this number, from 0, or NULL after the last one.
const char *fullpipe_algorithm_name(size_t number);

// Returns the version of the library: major * 1000000 + minor * 1000 + patch. Before 1.0 libraries
// of one minor version have the same interface, in which structs grow at their ends.
uint32_t fullpipe_version(void);

// Opens the batch of one ACK, or of one firing of the loss timer. Say what it told with the
// functions `fullpipe_ack_...`, in any order but losses in the order of sending, then call
// `fullpipe_ack_finish`.
enum fullpipe_status fullpipe_ack_begin(struct fullpipe_controller *cc, uint64_t now);

// `packet` is newly acknowledged.
enum fullpipe_status fullpipe_ack_acked(struct fullpipe_controller *cc,
                                        const struct fullpipe_packet *packet);

// `total` bytes are newly acknowledged, `newest` among them, which was sent last of them: for
// transports that keep no state of the others.
enum fullpipe_status fullpipe_ack_acked_bytes(struct fullpipe_controller *cc,
                                              const struct fullpipe_packet *newest,
                                              uint64_t total);

// `packet` was marked lost, and is now acknowledged after all.
enum fullpipe_status fullpipe_ack_acked_after_loss(struct fullpipe_controller *cc,
                                                   const struct fullpipe_packet *packet);

// `packet` is newly marked lost. Report losses in the order of sending.
enum fullpipe_status fullpipe_ack_lost(struct fullpipe_controller *cc,
                                       const struct fullpipe_packet *packet);

// `packet` is neither acknowledged nor lost and will not be: see `fullpipe_on_discarded`.
enum fullpipe_status fullpipe_ack_discarded(struct fullpipe_controller *cc,
                                            const struct fullpipe_packet *packet);

// A retransmission timeout that declares everything lost; in QUIC, persistent congestion (RFC 9002
// section 7.6). Report the lost packets in the same batch.
enum fullpipe_status fullpipe_ack_timeout(struct fullpipe_controller *cc);

// The transport's own round-trip sample for this ACK. It is up to `granularity` more than the
// truth; 0: as exact as the clock. Without this call the sample is the time since the newest
// acknowledged packet was sent.
enum fullpipe_status fullpipe_ack_rtt(struct fullpipe_controller *cc,
                                      uint64_t rtt,
                                      uint64_t granularity);

// This ACK gives no round-trip sample: it may be that of the first copy or of the second (RFC 6298
// section 3).
enum fullpipe_status fullpipe_ack_rtt_ambiguous(struct fullpipe_controller *cc);

// The part of this ACK's round trip in nanoseconds for which the newest acknowledged packet, or its
// ACK, was in the receiver's host because the host was busy, as timestamps of its interface tell
// it. The receiver's wait for more to acknowledge is not in it. `bbr-swift` takes the round trip
// without both for the network's, and shrinks its endpoint window for this part; the others ignore
// it.
enum fullpipe_status fullpipe_ack_receiver_delay(struct fullpipe_controller *cc, uint64_t delay);

// The part of this ACK's round trip in nanoseconds for which the receiver held the ACK back, to
// acknowledge more with it. QUIC's ACK Delay (RFC 9000 section 19.3) goes here. `bbr-swift` takes
// it out of the round trip; the others ignore it.
enum fullpipe_status fullpipe_ack_ack_delay(struct fullpipe_controller *cc, uint64_t delay);

// `packets` more packets were marked with CE (RFC 3168).
enum fullpipe_status fullpipe_ack_ce(struct fullpipe_controller *cc, uint64_t packets);

// Sets the bytes in flight to the transport's own count after this ACK and its losses.
enum fullpipe_status fullpipe_ack_resync_inflight(struct fullpipe_controller *cc, uint64_t bytes);

// Closes the batch: updates the model, the state, the window, the pacing rate and the quantum.
enum fullpipe_status fullpipe_ack_finish(struct fullpipe_controller *cc);

// Writes the configuration of a QUIC flow with datagrams of 1200 bytes. `size` is `sizeof(struct
// fullpipe_config)`; the fields of a newer program that this library does not know are 0. `seed`
// is the flow's own: two flows with one seed probe for bandwidth at the same moments.
enum fullpipe_status fullpipe_config_init(struct fullpipe_config *config,
                                          size_t size,
                                          uint64_t seed);

// Makes a controller for a flow that starts `now`, and writes it to `out`; NULL on an error.
// `algorithm` is a name, such as "bbr3": see `fullpipe_algorithm_name`. Free it with
// `fullpipe_free`.
enum fullpipe_status fullpipe_new(const char *algorithm,
                                  const struct fullpipe_config *config,
                                  uint64_t now,
                                  struct fullpipe_controller **out);

// Frees a controller. NULL is allowed. An open batch is dropped.
void fullpipe_free(struct fullpipe_controller *cc);

// Tells if a full packet may leave now, and if not, when. `size` is `sizeof(struct
// fullpipe_send_advice)`.
enum fullpipe_status fullpipe_can_send(struct fullpipe_controller *cc,
                                       uint64_t now,
                                       struct fullpipe_send_advice *out,
                                       size_t size);

// Writes the time at which the pacer allows `bytes` to leave at once: for a transport that waits
// until it can fill an aggregate.
enum fullpipe_status fullpipe_ready_at(struct fullpipe_controller *cc,
                                       uint64_t now,
                                       uint64_t bytes,
                                       uint64_t *out);

// Writes the rate, in bytes per second, that an application may plan with, as a video encoder:
// what the path has carried so far, with headers and retransmissions. FULLPIPE_NONE before the
// first round trip. BBR: the model's bandwidth; other algorithms: window over smoothed round-trip
// time, in slow start half of it.
enum fullpipe_status fullpipe_send_rate_estimate(struct fullpipe_controller *cc, uint64_t *out);

// Asks whether the path carries `target` bytes per second, for an application that would send more
// than it does. At FULLPIPE_BANDWIDTH_PROBE_PROBING it offers what fills the target up, such as
// padding or redundant data, and asks again a few times in a round trip.
enum fullpipe_status fullpipe_probe_bandwidth(struct fullpipe_controller *cc,
                                              uint64_t now,
                                              uint64_t target,
                                              enum fullpipe_bandwidth_probe *out);

// Writes the window, the bytes in flight, the pacing rate and the quantum. `size` is `sizeof(struct
// fullpipe_control)`.
enum fullpipe_status fullpipe_get_control(struct fullpipe_controller *cc,
                                          struct fullpipe_control *out,
                                          size_t size);

// A packet of `bytes`, 1 to 131071, left `now`; an aggregate that leaves as one counts as one
// packet. Keep what is written to `out` until the packet is acknowledged, lost or discarded.
enum fullpipe_status fullpipe_on_sent(struct fullpipe_controller *cc,
                                      uint64_t now,
                                      uint32_t bytes,
                                      struct fullpipe_packet *out);

// The application is the limit: window and pacer would let data leave, and there is none. Call it
// when the application writes, before the new data is queued, at the start of ACK and timer
// processing, and when sending ends, each time that nothing is unsent and nothing waits to be sent
// again. Do not call it for data that exists and may not leave because of the receiver's window, a
// full send buffer, the limit against amplification or missing keys: that is a limit as the path's,
// and with this call BBR would stay in Startup for as long as it lasts.
enum fullpipe_status fullpipe_on_app_limited(struct fullpipe_controller *cc);

// The transport was stopped by the window: for transports that test it themselves instead of
// calling `fullpipe_can_send`.
enum fullpipe_status fullpipe_on_cwnd_limited(struct fullpipe_controller *cc);

// The flow was idle for so long that its transport trusts no more than `cwnd` bytes of the window
// (RFC 2861). `cubic` and `reno` obey; the others have their own rules for a restart.
enum fullpipe_status fullpipe_on_idle(struct fullpipe_controller *cc, uint64_t now, uint64_t cwnd);

// Every packet of the recent recovery episode that was marked lost has arrived after all.
enum fullpipe_status fullpipe_on_spurious_loss(struct fullpipe_controller *cc, uint64_t now);

// `packet` is out of the transport's sight, neither acknowledged nor lost: its keys were
// discarded, or it was a probe that is not repeated.
enum fullpipe_status fullpipe_on_discarded(struct fullpipe_controller *cc,
                                           const struct fullpipe_packet *packet);

// The flow goes on from or to another address over the same path (RFC 9000 section 9.4: only the
// port changed): the model stays, and nothing is in flight. Calls about packets from before have
// no effect.
enum fullpipe_status fullpipe_forget_flight(struct fullpipe_controller *cc);

// The flow goes on over another path (RFC 9000 section 9.4): everything begins anew. `seed` is a
// new one; that of `config` is not used, nor is its `handshake_rtt`, which is of the old path.
// Calls about packets from before have no effect.
enum fullpipe_status fullpipe_on_migration(struct fullpipe_controller *cc,
                                           uint64_t now,
                                           uint64_t seed,
                                           const struct fullpipe_config *config);

// Another algorithm takes the flow over and begins as on a new one. Calls about packets from
// before have no effect.
enum fullpipe_status fullpipe_set_algorithm(struct fullpipe_controller *cc,
                                            const char *algorithm,
                                            uint64_t now,
                                            const struct fullpipe_config *config);

// The receiver was asked for another ACK frequency: an ACK for every `ack_threshold` packets, and
// after `max_ack_delay` at the latest. A threshold of 0: as in RFC 9000 section 13.2.
enum fullpipe_status fullpipe_on_ack_frequency(struct fullpipe_controller *cc,
                                               uint32_t ack_threshold,
                                               uint64_t max_ack_delay);

// The maximum packet size is `smss` from now on, 1 to 131071 bytes. Of `config` the initial window
// is used, if nothing was delivered yet.
enum fullpipe_status fullpipe_on_mtu_update(struct fullpipe_controller *cc,
                                            uint64_t now,
                                            uint32_t smss,
                                            const struct fullpipe_config *config);

// Returns the name of a state in the draft's spelling, never NULL. The string is static.
const char *fullpipe_state_name(int32_t state);

// Writes the model of the flow. `size` is `sizeof(struct fullpipe_info)`.
enum fullpipe_status fullpipe_get_info(struct fullpipe_controller *cc,
                                       struct fullpipe_info *out,
                                       size_t size);

// Splits the state of an aggregate that was sent as one packet: `first` gets its first `bytes`,
// `rest` gets the others. Both must be at least 1. Use the parts from then on, and the whole no
// more.
enum fullpipe_status fullpipe_packet_split(const struct fullpipe_packet *packet,
                                           uint32_t bytes,
                                           struct fullpipe_packet *first,
                                           struct fullpipe_packet *rest);

// Returns one line of English for a status, never NULL. The string is static.
const char *fullpipe_status_message(int32_t status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FULLPIPE_H */
