/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * The packets in flight and the losses when a packet left. TCP keeps neither beside a packet, so both are
 * noted before packets are sent, and the note of a packet is looked up when it is acknowledged or lost.
 * Without a type of the kernel: tests/suite/twin compiles it natively.
 *
 * One note serves all packets that are sent until it is wrong by more than 1/128 of what is in flight, or
 * its losses by more than 1/256. A flight therefore needs at most 128 notes, and 256 more if all of it is
 * lost; below 128 packets in flight a note is exact, and there are no more notes than packets.
 */
#ifndef FULLPIPE_NOTES_H
#define FULLPIPE_NOTES_H

#include "arith.h"

/* A power of two. With 16 bytes each, a connection's state stays below the 8 KB that the kernel allocates. */
#define NOTES 256
#define MAX_FLIGHT_ERROR 128
#define MAX_LOST_ERROR 256
/* The number of notes after that of the last ACK that are searched before all are. */
#define NEARBY 8

struct note {
	/* The sequence number of the next new packet, and the time. */
	uint32_t seq;
	uint32_t sent_us;
	/* In packets: what is in flight, and what was lost since the connection began. */
	uint32_t in_flight;
	uint32_t lost;
};

struct notes {
	struct note note[NOTES];
	/* Notes made so far. These numbers come last: what else an ACK reads is beside them. */
	uint32_t made;
	/* The number of the note that the last ACK was of, counted as made is. */
	uint32_t acked;
	/* Packets that were sent until the last note was made. */
	uint32_t sent;
};

static inline bool is_before(uint32_t a, uint32_t b) { return (int32_t)(a - b) < 0; }

/* The flight when a packet left that ends there and was sent once, in packets. */
static inline uint32_t flight_of(const struct note *sent, uint32_t end_seq, uint32_t smss)
{
	return sent->in_flight + ((uint32_t)(end_seq - sent->seq) + smss - 1) / smss;
}

/*
 * True if a note says of the next packet what another one would. Packets that were sent again, acknowledged or
 * lost since then make the difference.
 */
static inline bool still_holds(const struct note *last, const struct note *now, uint32_t smss)
{
	uint32_t share = now->in_flight / MAX_FLIGHT_ERROR;
	uint32_t error = flight_of(last, now->seq, smss) - now->in_flight;

	return error + share <= 2 * share && now->lost - last->lost <= now->in_flight / MAX_LOST_ERROR;
}

/* Packets may be sent now; sent counts those that were. */
static inline void make_note(struct notes *n, const struct note *now, uint32_t sent, uint32_t smss)
{
	const struct note *last = &n->note[(n->made - 1) & (NOTES - 1)];
	bool is_used = sent != n->sent;

	if (n->made && is_used && still_holds(last, now, smss))
		return;
	/* A note that no packet was sent under is replaced. */
	if (!n->made || is_used)
		n->made++;
	n->sent = sent;
	n->note[(n->made - 1) & (NOTES - 1)] = *now;
}

/* True if a note was made before a packet left; times are compared for one that was sent again. */
static inline bool is_note_before(const struct note *at, uint32_t end_seq, uint32_t sent_us, bool by_time)
{
	return by_time ? !is_before(sent_us, at->sent_us) : is_before(at->seq, end_seq);
}

/*
 * The age, in notes, of the youngest note that was made before the packet left. 0 when there is none any more.
 */
static inline uint32_t find_note(const struct notes *n, uint32_t end_seq, uint32_t sent_us, bool by_time)
{
	uint32_t known = n->made < NOTES ? n->made : NOTES, newer = 0;

#ifdef __clang__
#pragma clang loop unroll(disable)
#endif
	for (uint32_t step = NOTES / 2; step; step /= 2) {
		const struct note *at = &n->note[(n->made - newer - step) & (NOTES - 1)];

		if (newer + step < known && !is_note_before(at, end_seq, sent_us, by_time))
			newer += step;
	}
	const struct note *found = &n->note[(n->made - newer - 1) & (NOTES - 1)];
	return known && is_note_before(found, end_seq, sent_us, by_time) ? newer + 1 : 0;
}

/* As find_note() by number, where the note is that of the last ACK or one soon after it; else 0. */
static inline uint32_t find_next_note(const struct notes *n, uint32_t end_seq)
{
	uint32_t ago = n->made - n->acked;

	if (ago == 0 || ago > NOTES || !is_before(n->note[n->acked & (NOTES - 1)].seq, end_seq))
		return 0;
#ifdef __clang__
#pragma clang loop unroll(disable)
#endif
	for (uint32_t i = 0; i < NEARBY; i++, ago--) {
		if (ago == 1 || !is_before(n->note[(n->made - ago + 1) & (NOTES - 1)].seq, end_seq))
			return ago;
	}
	return 0;
}

/* The number of the note of the packet that an ACK is about, as find_note(). */
static inline uint32_t find_note_of_ack(const struct notes *n, uint32_t end_seq, uint32_t sent_us,
					bool is_retrans)
{
	uint32_t ago = is_retrans ? 0 : find_next_note(n, end_seq);

	return ago ? ago : find_note(n, end_seq, sent_us, is_retrans);
}

#endif
