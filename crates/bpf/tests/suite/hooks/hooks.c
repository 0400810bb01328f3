/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* c/bbr3.bpf.c compiled for a process, and a TCP connection to call it with. */
#include "bbr3.bpf.c"

bool keeps_state = true;
const char *lacking;
__u32 reads_of_lacking;
static struct flow state;
static struct tcp_sock tcp;

void *the_state(void) { return &state; }

void *bpf_rdonly_cast(const void *obj, __u32 btf_id) { return (void *)obj; }
void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) {}
__u32 tcp_reno_ssthresh(struct sock *sk) { return 2; }
__u32 tcp_reno_undo_cwnd(struct sock *sk) { return 2; }

#define MSS 1000
#define RTT_US 40000

static struct connection shown;

long bpf_seq_write(void *seq, const void *data, __u32 size)
{
	__builtin_memcpy(&shown, data, size);
	return 0;
}

/*
 * Shows a connection over IPv6 on a kernel without the members whose names have this in them. Returns how many of them
 * were read all the same: such a kernel refuses the program. first is the first byte of the remote address as shown.
 */
__u32 hooks_reads_of_lacking(const char *member, __u8 *first)
{
	struct net net = { .ns.inum = 1 };
	struct bpf_iter_meta meta = { 0 };
	struct sock socket = { .__sk_common = { .skc_family = AF_INET6, .skc_net.net = &net } };
	struct bpf_iter__bpf_sk_storage_map ctx = { .meta = &meta, .sk = &socket, .value = &state };

	socket.__sk_common.skc_v6_daddr.in6_u.u6_addr8[0] = 0xfd;
	lacking = member;
	reads_of_lacking = 0;
	bbr3_connections(&ctx);
	lacking = NULL;
	*first = shown.remote[0];
	return reads_of_lacking;
}

static struct sock *sk(void) { return &tcp.inet_conn.icsk_inet.sk; }

/* Packets that are delivered one an ACK, where so many are in flight and one more leaves for each. */
static void ack_one(void)
{
	__u32 in_flight = tcp.packets_out;
	struct rate_sample rs = {
		.prior_mstamp = tcp.tcp_mstamp - RTT_US,
		.delivered = in_flight,
		.interval_us = RTT_US,
		.rtt_us = RTT_US,
		.prior_in_flight = in_flight,
		.acked_sacked = 1,
		.last_end_seq = tcp.snd_una + MSS,
	};

	tcp.tcp_mstamp += RTT_US / in_flight;
	tcp.snd_una += MSS;
	tcp.delivered++;
	bbr3_cong_control(sk(), tcp.snd_una, 0, &rs);
	bbr3_min_tso_segs(sk());
	tcp.snd_nxt += MSS;
	tcp.data_segs_out++;
}

/*
 * A window of so many packets was full just now, and is wide open from here on. Returns the packets for which the
 * algorithm takes it for the limit, and by TCP's bit in tcp_says. TCP renews its bit when the packet is acknowledged
 * that was the newest when the window was last full, or when the bit was renewed (tcp_cwnd_validate()).
 */
__u32 hooks_limited_packets(__u32 flight, __u32 *tcp_says)
{
	__u32 limited = 0, usage;

	state = (struct flow){ 0 };
	tcp = (struct tcp_sock){
		.snd_nxt = flight * MSS,
		.snd_cwnd = 10,
		.snd_cwnd_clamp = ~0u,
		.mss_cache = MSS,
		.packets_out = flight,
		.data_segs_out = flight,
		.srtt_us = RTT_US << 3,
		.tcp_mstamp = 1000000,
		.is_cwnd_limited = 1,
	};
	tcp.rtt_min.s[0].v = RTT_US;
	sk()->sk_max_pacing_rate = ~0ul;
	bbr3_start(sk());
	usage = tcp.snd_nxt;
	*tcp_says = 0;
	for (__u32 ack = 0; ack < 4 * flight; ack++) {
		bool is_limited = tcp.is_cwnd_limited;

		ack_one();
		*tcp_says += is_limited;
		limited += state.conn.is_cwnd_limited;
		if (!is_before(tcp.snd_una, usage)) {
			tcp.is_cwnd_limited = 0;
			usage = tcp.snd_nxt;
		}
	}
	return limited;
}

/*
 * The pacing rate of a connection whose handshake took RTT_US, at its start and after an ACK whose round trip is
 * longer: by then TCP has smoothed it.
 */
void hooks_first_rates(__u32 rtt_us, __u64 *at_start, __u64 *after_ack)
{
	struct rate_sample rs = {
		.delivered = 1,
		.interval_us = rtt_us,
		.rtt_us = rtt_us,
		.prior_in_flight = 10,
		.acked_sacked = 1,
		.last_end_seq = MSS,
	};

	state = (struct flow){ 0 };
	tcp = (struct tcp_sock){
		.snd_nxt = 10 * MSS,
		.snd_cwnd = 10,
		.snd_cwnd_clamp = ~0u,
		.mss_cache = MSS,
		.packets_out = 10,
		.data_segs_out = 10,
		.srtt_us = RTT_US << 3,
		.tcp_mstamp = 1000000,
	};
	tcp.rtt_min.s[0].v = RTT_US;
	sk()->sk_max_pacing_rate = ~0ul;
	bbr3_start(sk());
	*at_start = sk()->sk_pacing_rate;
	rs.prior_mstamp = tcp.tcp_mstamp;
	tcp.tcp_mstamp += rtt_us;
	tcp.srtt_us += rtt_us - RTT_US;
	tcp.snd_una = MSS;
	tcp.delivered = 1;
	bbr3_cong_control(sk(), MSS, 0, &rs);
	*after_ack = sk()->sk_pacing_rate;
}
