/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * Integers of at most 64 bits: BPF has no wider ones. Every function gives what fullpipe_units
 * gives with its 128 bits, for all inputs but those of rate_from_volume(), where the bound stands.
 *
 * The trick is one: a * b / c == (a / c) * b + (a % c) * b / c, exactly, rounding included.
 */
#ifndef FULLPIPE_ARITH_H
#define FULLPIPE_ARITH_H

#ifndef FULLPIPE_KERNEL_TYPES
#include <stdbool.h>
#include <stdint.h>
#endif

/*
 * What an ACK seldom comes to stands apart: what it always runs through is to be short, because no
 * cache holds it when an ACK comes.
 */
#define SELDOM static __attribute__((noinline))

#define INFINITE UINT64_C(0xffffffffffffffff)
#define NANOS_PER_SEC UINT64_C(1000000000)

/* A factor in units of 1/25600, in which hundredths and 256ths are both exact. */
#define GAIN_ONE UINT64_C(25600)
#define PERCENT(n) (UINT64_C(256) * (n))
#define PER_256(n) (UINT64_C(100) * (n))

static inline uint64_t min64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t max64(uint64_t a, uint64_t b) { return a > b ? a : b; }

static inline uint64_t add_sat(uint64_t a, uint64_t b)
{
	return a + b < a ? INFINITE : a + b;
}

static inline uint64_t sub_sat(uint64_t a, uint64_t b)
{
	return a < b ? 0 : a - b;
}

static inline bool fits_32_bits(uint64_t v) { return v >> 32 == 0; }

/* In halves: a test by division is one that compilers turn into a product of 128 bits. */
static inline uint64_t mul_sat(uint64_t a, uint64_t b)
{
	uint64_t small = min64(a, b), large = max64(a, b);

	if (fits_32_bits(large))
		return small * large;
	uint64_t low = (large & 0xffffffff) * small;
	if (!fits_32_bits(small) || !fits_32_bits((large >> 32) * small))
		return INFINITE;
	uint64_t high = (large >> 32) * small + (low >> 32);
	return fits_32_bits(high) ? high << 32 | (low & 0xffffffff) : INFINITE;
}

SELDOM uint64_t mul_div_wide(uint64_t a, uint64_t b, uint64_t c)
{
	return add_sat(mul_sat(a / c, b), a % c * b / c);
}

/* a * b / c, where c * b is below 2^64 and c is not 0. */
static inline uint64_t mul_div(uint64_t a, uint64_t b, uint64_t c)
{
	if (fits_32_bits(a | b))
		return a * b / c;
	return mul_div_wide(a, b, c);
}

/* volume * gain, rounded down. A gain of 256ths that the compiler knows is a shift: BPF divides slowly. */
static inline uint64_t gain_of(uint64_t gain, uint64_t volume)
{
	if (__builtin_constant_p(gain) && gain % PER_256(1) == 0)
		return mul_div(volume, gain / PER_256(1), 256);
	return mul_div(volume, gain, GAIN_ONE);
}

/* volume / gain, rounded down; gain is not 0. */
static inline uint64_t gain_divide(uint64_t gain, uint64_t volume)
{
	return mul_div(volume, GAIN_ONE, gain);
}

SELDOM uint64_t bytes_in_wide(uint64_t bytes_per_sec, uint64_t nanos)
{
	uint64_t whole = mul_sat(nanos / NANOS_PER_SEC, bytes_per_sec);
	/* The rest of the time is under a second, so that c * b is below 2^64. */
	return add_sat(whole, mul_div(bytes_per_sec, nanos % NANOS_PER_SEC, NANOS_PER_SEC));
}

/* Bytes that bytes_per_sec carries in nanos. */
static inline uint64_t bytes_in(uint64_t bytes_per_sec, uint64_t nanos)
{
	if (fits_32_bits(bytes_per_sec | nanos))
		return bytes_per_sec * nanos / NANOS_PER_SEC;
	return bytes_in_wide(bytes_per_sec, nanos);
}

/*
 * The rate that carries bytes in nanos; no time counts as 1 ns. Exact up to 18.4 GB or 18.4 s in one
 * sample. A sample of more than both is rounded: its time is taken in 1/1024 of a microsecond.
 */
SELDOM uint64_t rate_from_volume_wide(uint64_t bytes, uint64_t nanos)
{
	const uint64_t exact = INFINITE / NANOS_PER_SEC;

	if (nanos == 0)
		nanos = 1;
	uint64_t whole = mul_sat(bytes / nanos, NANOS_PER_SEC), rest = bytes % nanos;
	if (rest <= exact)
		return add_sat(whole, rest * NANOS_PER_SEC / nanos);
	return add_sat(whole, rest / (nanos / NANOS_PER_SEC));
}

static inline uint64_t rate_from_volume(uint64_t bytes, uint64_t nanos)
{
	if (bytes <= INFINITE / NANOS_PER_SEC && nanos)
		return bytes * NANOS_PER_SEC / nanos;
	return rate_from_volume_wide(bytes, nanos);
}

/* The upper 64 bits of a * n; n is below 2^32. */
static inline uint64_t mul_high(uint64_t a, uint64_t n)
{
	return ((a >> 32) * n + ((a & 0xffffffff) * n >> 32)) >> 32;
}

/* SplitMix64, fullpipe_cc's: two flows only must not probe in step. */
static inline uint64_t random_below(uint64_t *state, uint64_t n)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return mul_high(z ^ z >> 31, n);
}

#endif
