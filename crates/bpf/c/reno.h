/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* The kernel's Reno, for a connection without state. */
#ifndef FULLPIPE_RENO_H
#define FULLPIPE_RENO_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "arith.h"

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/*
 * What TCP does by itself for an algorithm without cong_control(): the window falls to ssthresh when a
 * recovery begins (RFC 6582 section 3.2) and grows outside of one; the rate is twice what the window asks
 * for in slow start, and 1.2 times after it.
 */
static void reno_cong_control(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u8 state = BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)sk, icsk_ca_state);

	if (state == TCP_CA_CWR || state == TCP_CA_Recovery)
		tp->snd_cwnd = min64(tp->snd_cwnd, max64(tp->snd_ssthresh, 2));
	else if (rs->acked_sacked > 0)
		tcp_reno_cong_avoid(sk, 0, rs->acked_sacked);
	if (tp->srtt_us) {
		uint64_t bytes = (uint64_t)tp->snd_cwnd * tp->mss_cache;
		uint64_t percent = tp->snd_cwnd < tp->snd_ssthresh / 2 ? 200 : 120;
		/* srtt_us is in eighths. */
		uint64_t rate = bytes * 8000000 / tp->srtt_us * percent / 100;

		sk->sk_pacing_rate = min64(rate, sk->sk_max_pacing_rate);
	}
}

#endif
