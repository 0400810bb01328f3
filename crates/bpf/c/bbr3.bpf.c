// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/*
 * BBRv3 as a congestion control of a stock kernel (BPF struct_ops): what TCP says, told to bbr3.h.
 *
 * TCP keeps the delivery-rate sample, but neither what was in flight nor what was lost when a packet
 * left. min_tso_segs() runs before each burst: there both are noted, beside the sequence number that
 * comes next. On an ACK the note of the newest acknowledged packet is searched for.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "bbr3.h"

char _license[] SEC("license") = "Dual BSD/GPL";

extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym;
extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __weak __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __weak __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __weak __ksym;

#define CAST(address, type)                                                      \
	((type *)bpf_rdonly_cast((const void *)(address), bpf_core_type_id_kernel(type)))

/*
 * Bursts that are remembered. A burst lasts a millisecond, or is two packets on a slow path: enough
 * for a second in flight. 16 KB a connection.
 */
#define BURSTS 1024
/* How many bursts after the one of the last ACK are looked at before all are. */
#define NEARBY 8
/* Packets of the retransmission queue that one ACK may look at, and the depth of its tree. */
#define MAX_LOST_WALK 256
#define MAX_TREE_DEPTH 40
#define MAX_INITIAL_CWND 1024

struct burst {
	__u32 seq;
	__u32 sent_us;
	/* In packets, as tp->lost. */
	__u32 in_flight;
	__u32 lost;
};

struct flow {
	__u32 initial_packets;
	/* What of tp->delivered and tp->lost is in conn, and of tp->delivered_ce in bbr. */
	__u32 seen_delivered;
	__u32 seen_lost;
	__u32 seen_marks;
	/* The end of the last packet that was told as lost. */
	__u32 lost_end_seq;
	/* Bursts noted so far. */
	__u32 bursts;
	/* The number of the burst that the last ACK was of, counted as bursts is. */
	__u32 acked_burst;
	/* Beside them what an ACK reads of the algorithm. */
	struct bbr3_conn conn;
	struct bbr3 bbr;
	struct burst burst[BURSTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

/* For the one who unloads: under which name, and what the system's default was before. */
struct registration {
	char name[16];
	char previous_default[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct registration);
} registration SEC(".maps");

static struct flow *flow_of(struct sock *sk)
{
	return bpf_sk_storage_get(&flows, sk, 0, 0);
}

static bool is_before(__u32 a, __u32 b) { return (__s32)(a - b) < 0; }

static __u32 packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static uint64_t now_of(const struct tcp_sock *tp) { return tp->tcp_mstamp * 1000; }

/* Hands window and rate to TCP. Those that the application limits stay under its limits. */
static void set_controls(struct sock *sk, const struct flow *f)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	uint64_t packets = f->conn.cwnd / f->conn.smss;

	tp->snd_cwnd = min64(max64(packets, 1), tp->snd_cwnd_clamp);
	sk->sk_pacing_rate = min64(f->conn.pacing_rate, sk->sk_max_pacing_rate);
}

/*
 * Functions that are not static are verified by themselves, once, for all arguments: inlined where
 * they are called, their branches would multiply beyond what the verifier follows. They take no
 * NULL, but the verifier wants to see that.
 */

/* Whether a burst began before a packet left; times are asked for one that was sent again. */
static bool is_burst_before(const struct burst *at, __u32 end_seq, __u32 sent_us, bool by_time)
{
	return by_time ? !is_before(sent_us, at->sent_us) : is_before(at->seq, end_seq);
}

/*
 * How many bursts ago the packet left: the youngest one that began before it. 0 when that is not
 * remembered.
 */
__noinline __u32 find_burst(const struct flow *f, __u32 end_seq, __u32 sent_us, bool by_time)
{
	if (!f)
		return 0;
	__u32 known = f->bursts < BURSTS ? f->bursts : BURSTS, newer = 0;

#pragma clang loop unroll(disable)
	for (__u32 step = BURSTS / 2; step; step /= 2) {
		const struct burst *at = &f->burst[(f->bursts - newer - step) & (BURSTS - 1)];

		if (newer + step < known && !is_burst_before(at, end_seq, sent_us, by_time))
			newer += step;
	}
	const struct burst *found = &f->burst[(f->bursts - newer - 1) & (BURSTS - 1)];
	return known && is_burst_before(found, end_seq, sent_us, by_time) ? newer + 1 : 0;
}

static const struct burst *burst_of(const struct flow *f, __u32 end_seq, __u32 sent_us, bool by_time)
{
	__u32 ago = find_burst(f, end_seq, sent_us, by_time);

	return ago ? &f->burst[(f->bursts - ago) & (BURSTS - 1)] : NULL;
}

/*
 * As find_burst() by number, where the burst is that of the last ACK or one soon after it. The search
 * among all of them goes through memory that is in no cache.
 */
__noinline __u32 find_next_burst(const struct flow *f, __u32 end_seq)
{
	if (!f)
		return 0;
	__u32 ago = f->bursts - f->acked_burst;

	if (ago == 0 || ago > BURSTS ||
	    !is_before(f->burst[f->acked_burst & (BURSTS - 1)].seq, end_seq))
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < NEARBY; i++, ago--) {
		if (ago == 1 ||
		    !is_before(f->burst[(f->bursts - ago + 1) & (BURSTS - 1)].seq, end_seq))
			return ago;
	}
	return 0;
}

/* The burst of the packet that an ACK is about. */
static const struct burst *acked_burst(struct flow *f, const struct tcp_sock *tp,
				       const struct rate_sample *rs)
{
	__u32 ago = rs->is_retrans ? 0 : find_next_burst(f, rs->last_end_seq);

	if (!ago)
		ago = find_burst(f, rs->last_end_seq, tp->first_tx_mstamp, rs->is_retrans);
	if (!ago)
		return NULL;
	f->acked_burst = f->bursts - ago;
	return &f->burst[f->acked_burst & (BURSTS - 1)];
}

__noinline int flow_ack(struct flow *f, const struct bbr3_sample *rs)
{
	if (f && rs)
		bbr3_ack(&f->bbr, &f->conn, rs);
	return 0;
}

__noinline int flow_lost(struct flow *f, const struct bbr3_lost_packet *lost)
{
	if (f && lost)
		bbr3_lost(&f->bbr, lost);
	return 0;
}

__noinline int flow_congestion(struct flow *f, uint64_t now)
{
	if (f)
		bbr3_congestion(&f->bbr, &f->conn, now);
	return 0;
}

/* P.tx_in_flight of a packet that was sent once: in full packets, as TCP counts. */
static uint64_t tx_in_flight(const struct flow *f, const struct burst *sent, __u32 end_seq)
{
	uint64_t smss = f->conn.smss, of_burst = (__u32)(end_seq - sent->seq) + smss - 1;

	return (sent->in_flight + of_burst / smss) * smss;
}

/* A pointer in the kernel's memory, as a number: pointers cannot go through functions like these. */
#define address_in(pointer)                                              \
	({                                                               \
		uint64_t address = 0;                                    \
		bpf_core_read(&address, sizeof(address), (pointer));     \
		address;                                                 \
	})

/* The address of the next packet in the tree of those that were sent, or 0. */
__noinline uint64_t next_in_tree(uint64_t packet)
{
	/* The node is the first member of a packet. */
	uint64_t node = packet, next = address_in(&CAST(node, struct rb_node)->rb_right);
	int i;

	if (next) {
		bpf_for(i, 0, MAX_TREE_DEPTH) {
			uint64_t left = address_in(&CAST(next, struct rb_node)->rb_left);

			if (!left)
				break;
			next = left;
		}
		return next;
	}
	bpf_for(i, 0, MAX_TREE_DEPTH) {
		next = CAST(node, struct rb_node)->__rb_parent_color & ~3ull;
		if (!next || node != address_in(&CAST(next, struct rb_node)->rb_right))
			break;
		node = next;
	}
	return next;
}

/* Counts packets that were lost, sent at sent if that is known, and tells of them as one. */
static void tell_lost(struct flow *f, struct bbr3_lost_packet *lost, __u32 packets,
		      const struct burst *sent)
{
	f->seen_lost += packets;
	lost->size = packets * f->conn.smss;
	lost->lost_since =
		sent ? (__u32)(f->seen_lost - sent->lost) * f->conn.smss : lost->size;
	f->conn.lost += lost->size;
	flow_lost(f, lost);
}

/* Tells of one packet of the retransmission queue, if it is one of the newly lost. */
__noinline int tell_if_lost(struct flow *f, uint64_t address, __u32 lost, uint64_t prior_in_flight)
{
	if (!f)
		return 0;
	struct tcp_skb_cb *cb = CAST(CAST(address, struct sk_buff)->cb, struct tcp_skb_cb);
	bool waits = (cb->sacked & (TCPCB_LOST | TCPCB_SACKED_RETRANS)) == TCPCB_LOST;
	__u32 end_seq = cb->end_seq;

	if (!waits || !is_before(f->lost_end_seq, end_seq))
		return 0;
	const struct burst *sent = burst_of(f, end_seq, 0, false);
	struct bbr3_lost_packet packet = {
		.tx_in_flight = sent ? tx_in_flight(f, sent, end_seq) : prior_in_flight,
		.is_app_limited = BPF_CORE_READ_BITFIELD(cb, tx.is_app_limited),
	};

	f->lost_end_seq = end_seq;
	tell_lost(f, &packet, min64(max64(cb->tcp_gso_segs, 1), lost), sent);
	return 0;
}

/*
 * Tells which packets TCP has marked as lost since the last ACK. They are in the retransmission
 * queue, from the hint on, marked and not yet sent again; those up to lost_end_seq were told before.
 * What is not found there (a retransmission that was lost too) is told as one.
 */
static void tell_losses(struct flow *f, struct tcp_sock *tp, uint64_t prior_in_flight)
{
	uint64_t packet = address_in(&tp->retransmit_skb_hint);
	int i;

	bpf_for(i, 0, MAX_LOST_WALK) {
		if (!packet || tp->lost == f->seen_lost)
			break;
		tell_if_lost(f, packet, tp->lost - f->seen_lost, prior_in_flight);
		packet = next_in_tree(packet);
	}
	if (tp->lost != f->seen_lost) {
		struct bbr3_lost_packet rest = { .tx_in_flight = prior_in_flight };

		tell_lost(f, &rest, tp->lost - f->seen_lost, NULL);
	}
	flow_congestion(f, now_of(tp));
}

/* An RTT sample that TCP does not have (of a packet sent twice) tells nothing new. */
static uint64_t rtt_of(const struct flow *f, const struct rate_sample *rs)
{
	if (rs->rtt_us >= 0)
		return max64(rs->rtt_us * 1000, MIN_RTT_SAMPLE);
	return f->bbr.min_rtt != INFINITE ? f->bbr.min_rtt : max64(f->conn.srtt, MIN_RTT_SAMPLE);
}

/*
 * Tells of CE marks. TCP counts what was delivered by ACKs that echo one; without accurate ECN a receiver
 * goes on echoing until it sees the answer, so that a mark stands for the data of a round trip.
 */
SELDOM void tell_marks(struct flow *f, const struct tcp_sock *tp, const struct rate_sample *rs)
{
	uint64_t smss = f->conn.smss;

	bbr3_marks(&f->bbr, (__u32)(tp->delivered_ce - f->seen_marks) * smss,
		   rs->delivered_ce * smss, rs->delivered * smss);
	f->seen_marks = tp->delivered_ce;
}

static void tell_acked(struct flow *f, struct tcp_sock *tp, const struct rate_sample *rs, __u32 packets)
{
	struct bbr3_conn *c = &f->conn;
	const struct burst *sent = acked_burst(f, tp, rs);
	uint64_t delivered = rs->delivered * c->smss;
	struct bbr3_sample sample = {
		.now = now_of(tp),
		.rtt = rtt_of(f, rs),
		.delivery_rate =
			rs->interval_us > 0 ? rate_from_volume(delivered, rs->interval_us * 1000) : 0,
		.delivered = delivered,
		.prior_delivered = sub_sat(c->delivered, delivered),
		.newly_acked = packets * c->smss,
		.tx_in_flight = rs->prior_in_flight * c->smss,
		.lost = 0,
		.prior_inflight = rs->prior_in_flight * c->smss,
		.is_app_limited = rs->is_app_limited,
	};

	if (sent) {
		sample.tx_in_flight = rs->is_retrans ? (sent->in_flight + 1) * c->smss :
						       tx_in_flight(f, sent, rs->last_end_seq);
		sample.lost = (__u32)(tp->lost - sent->lost) * c->smss;
	}
	if (rs->rtt_us >= 0)
		update_srtt(c, sample.rtt);
	if (tp->delivered_ce != f->seen_marks)
		tell_marks(f, tp, rs);
	c->app_limited = 0;
	flow_ack(f, &sample);
	if (c->app_limited)
		tp->app_limited = (tp->delivered + packets_in_flight(tp)) ?: 1;
}

SEC("struct_ops")
void BPF_PROG(bbr3_start, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	/* Without memory for it the flow stays with the window that it has. */
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	uint64_t seed = (uint64_t)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();

	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	if (!f)
		return;
	f->initial_packets = min64(max64(tp->snd_cwnd, 1), MAX_INITIAL_CWND);
	f->seen_delivered = tp->delivered;
	f->seen_lost = tp->lost;
	f->seen_marks = tp->delivered_ce;
	f->lost_end_seq = tp->snd_una;
	f->bursts = f->acked_burst = 0;
	f->conn.smss = max64(tp->mss_cache, 1);
	f->conn.initial_cwnd = f->initial_packets * f->conn.smss;
	bbr3_init(&f->bbr, &f->conn, now_of(tp), seed, tp->ecn_flags & TCP_ECN_OK);
	f->conn.srtt = (uint64_t)(tp->srtt_us >> 3) * 1000;
	init_pacing_rate(&f->conn);
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	set_controls(sk, f);
}

SEC("struct_ops")
void BPF_PROG(bbr3_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = flow_of(sk);

	if (!f)
		return;
	struct bbr3_conn *c = &f->conn;
	__u32 delivered = tp->delivered - f->seen_delivered;
	if (tp->mss_cache != c->smss && tp->mss_cache)
		bbr3_smss(&f->bbr, c, tp->mss_cache, f->initial_packets * tp->mss_cache);
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited)) {
		c->inflight = rs->prior_in_flight * c->smss;
		mark_cwnd_limited(c);
	}
	f->seen_delivered = tp->delivered;
	c->delivered += delivered * c->smss;
	c->inflight = packets_in_flight(tp) * c->smss;
	if (tp->lost != f->seen_lost)
		tell_losses(f, tp, rs->prior_in_flight * c->smss);
	if (delivered && rs->delivered >= 0 && rs->prior_mstamp)
		tell_acked(f, tp, rs, delivered);
	set_controls(sk, f);
}

SEC("struct_ops")
__u32 BPF_PROG(bbr3_min_tso_segs, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = flow_of(sk);

	if (f) {
		struct burst *last = &f->burst[(f->bursts - 1) & (BURSTS - 1)];
		struct burst *at = &f->burst[f->bursts & (BURSTS - 1)];

		/* Nothing left since the last note, not even a retransmission: it is renewed. */
		if (f->bursts && last->seq == tp->snd_nxt && tp->retrans_out == 0)
			at = last;
		else
			f->bursts++;
		at->seq = tp->snd_nxt;
		at->sent_us = tp->tcp_mstamp;
		at->in_flight = packets_in_flight(tp);
		at->lost = tp->lost;
	}
	return 2;
}

SEC("struct_ops")
void BPF_PROG(bbr3_cwnd_event, struct sock *sk, int event)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = flow_of(sk);

	if (f && event == CA_EVENT_TX_START && tp->app_limited) {
		bbr3_restart_from_idle(&f->bbr, &f->conn, now_of(tp));
		set_controls(sk, f);
	}
}

SEC("struct_ops")
void BPF_PROG(bbr3_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = flow_of(sk);

	if (!f)
		return;
	f->conn.inflight = packets_in_flight(tp) * f->conn.smss;
	if (new_state >= TCP_CA_Recovery && !f->conn.in_recovery)
		f->lost_end_seq = tp->snd_una;
	if (new_state == TCP_CA_Loss)
		bbr3_rto(&f->bbr, &f->conn);
	else if (new_state == TCP_CA_Recovery)
		bbr3_enter_recovery(&f->bbr, &f->conn);
	else if (f->conn.in_recovery)
		bbr3_exit_recovery(&f->bbr, &f->conn);
}

SEC("struct_ops")
__u32 BPF_PROG(bbr3_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct flow *f = flow_of(sk);

	if (!f)
		return tp->snd_cwnd;
	bbr3_spurious_loss(&f->bbr, &f->conn);
	return max64(f->conn.cwnd / f->conn.smss, tp->snd_cwnd);
}

/* Not used by this algorithm; TCP asks all the same. */
SEC("struct_ops")
__u32 BPF_PROG(bbr3_ssthresh, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_ssthresh;
}

/* TCP's own allowance, and one more for what waits for its pacing. */
SEC("struct_ops")
__u32 BPF_PROG(bbr3_sndbuf_expand, struct sock *sk)
{
	return 3;
}

/* One connection for status, as src/status.rs reads it. */
struct connection {
	__u8 remote[16];
	uint64_t cwnd;
	uint64_t pacing_rate;
	uint64_t max_bw;
	uint64_t min_rtt;
	uint64_t delivered;
	uint64_t lost;
	uint64_t inflight_longterm;
	uint64_t smss;
	__u32 state;
	__u16 local_port;
	__u16 remote_port;
	__u32 is_ipv6;
	/* In 256ths; all ones while there is no response to marks. */
	__u32 ecn_alpha;
	uint64_t ecn_marked;
};

SEC("iter/bpf_sk_storage_map")
int bbr3_connections(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;
	const struct flow *f = ctx->value;

	if (!sk || !f)
		return 0;
	struct connection connection = {
		.cwnd = f->conn.cwnd,
		.pacing_rate = f->conn.pacing_rate,
		.max_bw = f->bbr.max_bw,
		.min_rtt = f->bbr.min_rtt,
		.delivered = f->conn.delivered,
		.lost = f->conn.lost,
		.inflight_longterm = f->bbr.inflight_longterm,
		.smss = f->conn.smss,
		.state = f->bbr.state,
		.local_port = sk->__sk_common.skc_num,
		.remote_port = __builtin_bswap16(sk->__sk_common.skc_dport),
		.is_ipv6 = sk->__sk_common.skc_family == AF_INET6,
		.ecn_alpha = f->bbr.is_ecn_eligible ? f->bbr.ecn_alpha : ~0u,
		.ecn_marked = f->bbr.ecn_marked,
	};
	if (connection.is_ipv6)
		bpf_core_read(connection.remote, 16, &sk->__sk_common.skc_v6_daddr);
	else
		*(__be32 *)connection.remote = sk->__sk_common.skc_daddr;
	bpf_seq_write(ctx->meta->seq, &connection, sizeof(connection));
	return 0;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops bbr3_ops = {
	.name = "bbr3",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)bbr3_start,
	.cong_control = (void *)bbr3_cong_control,
	.ssthresh = (void *)bbr3_ssthresh,
	.undo_cwnd = (void *)bbr3_undo_cwnd,
	.cwnd_event = (void *)bbr3_cwnd_event,
	.set_state = (void *)bbr3_set_state,
	.min_tso_segs = (void *)bbr3_min_tso_segs,
	.sndbuf_expand = (void *)bbr3_sndbuf_expand,
};
