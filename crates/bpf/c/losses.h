/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * The packets that TCP has marked as lost. They are in its retransmission queue, a tree in the order of
 * sequence numbers, which a program may read and not change.
 */
#ifndef FULLPIPE_LOSSES_H
#define FULLPIPE_LOSSES_H

#include "flow.h"

extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym;
extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __weak __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __weak __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __weak __ksym;

#define CAST(address, type)                                                      \
	((type *)bpf_rdonly_cast((const void *)(address), bpf_core_type_id_kernel(type)))

/* Packets of the queue that are looked at after an ACK and after a timeout, and the depth of the tree. */
#define MAX_WALK_OF_ACK 256
#define MAX_WALK_OF_TIMEOUT 4096
#define MAX_TREE_DEPTH 40

/*
 * Functions that are not static are verified by themselves, once, for all arguments: inlined where
 * they are called, their branches would multiply beyond what the verifier follows. They take no
 * NULL, but the verifier wants to see that.
 */

/* A pointer in the kernel's memory, as a number: pointers cannot go through functions like these. */
#define address_in(pointer)                                              \
	({                                                               \
		uint64_t address = 0;                                    \
		bpf_core_read(&address, sizeof(address), (pointer));     \
		address;                                                 \
	})

static struct tcp_skb_cb *cb_of(uint64_t packet)
{
	/* The node is the first member of a packet. */
	return CAST(CAST(packet, struct sk_buff)->cb, struct tcp_skb_cb);
}

/* The address of the first packet under this node that ends after seq, or 0. */
__noinline uint64_t first_after(uint64_t node, __u32 seq)
{
	uint64_t found = 0;
	int i;

	bpf_for(i, 0, MAX_TREE_DEPTH) {
		if (!node)
			break;
		if (is_before(seq, cb_of(node)->end_seq)) {
			found = node;
			node = address_in(&CAST(node, struct rb_node)->rb_left);
		} else {
			node = address_in(&CAST(node, struct rb_node)->rb_right);
		}
	}
	return found;
}

/* The address of the next packet in the tree, or 0. */
__noinline uint64_t next_in_tree(uint64_t packet)
{
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

__noinline int flow_lost(struct flow *f, const struct bbr3_lost_packet *lost)
{
	if (f && lost)
		bbr3_lost(&f->bbr, &f->conn, lost);
	return 0;
}

__noinline int flow_congestion(struct flow *f, uint64_t now)
{
	if (f)
		bbr3_congestion(&f->bbr, &f->conn, now);
	return 0;
}

/* Counts packets that were lost, sent under this note if there is one, and reports them as one. */
static void report_lost(struct flow *f, struct bbr3_lost_packet *lost, __u32 packets,
			const struct note *sent)
{
	f->seen_lost += packets;
	f->losses += packets;
	lost->size = packets * f->conn.smss;
	lost->lost_since =
		sent ? (__u32)(f->seen_lost - sent->lost) * f->conn.smss : lost->size;
	f->conn.lost += lost->size;
	flow_lost(f, lost);
}

/*
 * Reports a packet of the queue if it is lost, one of at most so many that were not reported yet. Returns
 * whether lost ones may follow: TCP marks in the order of sending, so none does after a packet that is
 * neither lost nor acknowledged selectively.
 */
__noinline int report_if_lost(struct flow *f, uint64_t packet, __u32 at_most, uint64_t prior_in_flight)
{
	if (!f)
		return 0;
	struct tcp_skb_cb *cb = cb_of(packet);
	__u32 end_seq = cb->end_seq;

	if (!(cb->sacked & TCPCB_LOST))
		return cb->sacked & (TCPCB_SACKED_ACKED | TCPCB_RETRANS);
	__u32 ago = find_note(&f->notes, end_seq, 0, false);
	const struct note *sent = ago ? &f->notes.note[(f->notes.made - ago) & (NOTES - 1)] : NULL;
	struct bbr3_lost_packet lost = {
		.tx_in_flight = sent ? flight_of(sent, end_seq, f->conn.smss) * f->conn.smss :
				       prior_in_flight,
		.is_app_limited = BPF_CORE_READ_BITFIELD(cb, tx.is_app_limited),
	};

	f->lost_end_seq = end_seq;
	report_lost(f, &lost, min64(max64(cb->tcp_gso_segs, 1), at_most), sent);
	return 1;
}

/*
 * Reports the packets that TCP has marked as lost since the last time. Those that lie before
 * lost_end_seq were reported before. What is not found after it (a retransmission that was lost too) is
 * reported as one, unless the queue is too long for one walk: then the next ACK goes on.
 */
static void report_losses(struct flow *f, struct sock *sk, uint64_t prior_in_flight, int max_walk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	uint64_t packet;
	int i;

	if (is_before(f->lost_end_seq, tp->snd_una))
		f->lost_end_seq = tp->snd_una;
	packet = first_after(address_in(&sk->tcp_rtx_queue.rb_node), f->lost_end_seq);
	bpf_for(i, 0, max_walk) {
		__u32 more = tp->lost - f->seen_lost;

		if (!packet || !more)
			break;
		if (!report_if_lost(f, packet, more, prior_in_flight))
			packet = 0;
		else
			packet = next_in_tree(packet);
	}
	if (tp->lost != f->seen_lost && packet) {
		/* What lies before it is reported, or arrived. */
		__u32 seq = cb_of(packet)->seq;

		if (is_before(f->lost_end_seq, seq))
			f->lost_end_seq = seq;
	} else if (tp->lost != f->seen_lost) {
		struct bbr3_lost_packet rest = { .tx_in_flight = prior_in_flight };

		f->losses_not_found += tp->lost - f->seen_lost;
		report_lost(f, &rest, tp->lost - f->seen_lost, NULL);
	}
	flow_congestion(f, tp->tcp_mstamp * 1000);
}

#endif
