// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The paced generator: an XDP program that is run by BPF_PROG_TEST_RUN with BPF_F_TEST_XDP_LIVE_FRAMES
// (Documentation/bpf/bpf_prog_run.rst). Each run gets one frame, waits until that frame's transmit time, stamps it and
// redirects it to a device.
//
// Owns: the schedule (when the next packet is due), the stamp, the per-packet header fields.
// Does not own: what a pattern means in packets per second (crates/ringtap-testbed/src/generate/schedule.rs computes the
// tables), the frame's constant part (frame.rs), how often and with which batch the kernel runs it (generate/mod.rs).
//
// Times are CLOCK_MONOTONIC. The schedule is kept in 1/65536 ns ("q16") since `base`, so that 148 kpps (6756.76 ns) does
// not drift, and lives in a map, so that it goes on without a gap from one test-run call to the next.

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

// A waiting run gives the frame back after this long, so that the kernel's loop gets to see signals and the scheduler.
#define SLICE_NS 200000ULL
// bpf_loop's own limit, BPF_MAX_LOOPS; a slice needs far fewer turns.
#define SPIN_TURNS (1U << 23)
#define LATENESS_BUCKETS 40
#define SEGMENTS 256
#define FACTORS 4096
#define SIZES 256
// Late by more than this counts as a late packet.
#define LATE_NS 100000ULL
// A delay of fewer packets than this is made up for at once: they are a quarter of veth's queue. Longer, the core was away.
#define PAUSE_PACKETS 64
// But what a device and its NAPI take between two batches is no pause at any rate, and half a millisecond is one at each.
#define LEAST_PAUSE_NS 40000ULL
#define LONGEST_PAUSE_NS 500000ULL

enum segment_kind { CONSTANT = 0, RANDOM = 1, BURST = 2, RAMP = 3, SILENCE = 4 };

// Written by user space before the run. Each field is 8 bytes: user space writes it as an array of u64 in this order.
struct config {
	__u64 ifindex;
	__u64 stream;           // low 16 bits go into the stamp
	__u64 limit;            // packets to send; 0: no limit
	__u64 stamp_offset;     // of the stamp in the frame
	__u64 ip_offset;        // of the IP header
	__u64 ip_version;       // 4 or 6
	__u64 batch;            // frames the kernel runs before it flushes
	__u64 hold_ns;          // longest time a frame may wait for its batch to be flushed
	__u64 max_late_ns;      // later than that, the schedule is moved instead of caught up
	__u64 sizes;            // entries used of `sizes`
	__u64 flows;            // source ports used, from `source_port` on
	__u64 source_port;
	__u64 full_size;        // length of the frame as user space hands it in
	__u64 first_seq;
	__u64 magic;
	__u64 destination_port;
	__u64 header[8];        // the frame's first 64 bytes as they lie in memory
};

// Written by this program, read by user space while it runs; 8 bytes each, in this order.
struct state {
	__u64 sent;             // packets stamped and redirected
	__u64 next_q16;         // when the next one is due, since `base`
	__u64 base_ns;          // 0: not started
	__u64 last_ns;          // transmit time of the last one
	__u64 first_ns;         // transmit time of the first one
	__u64 segment;          // running segment
	__u64 segment_start_q16;
	__u64 burst_position;
	__u64 random;           // state of the generator of random numbers, never 0
	__u64 gap_q16;          // interval between the last packet and the next
	__u64 slipped_ns;       // by how much the schedule was moved in all
	__u64 slips;
	__u64 late_max_ns;
	__u64 late;             // packets later than LATE_NS
	__u64 runs;             // runs of this program
	__u64 held_since_ns;    // oldest frame not yet flushed; 0: none
	__u64 done;             // limit reached or last segment over
	__u64 bytes;            // sum of the frame lengths
	__u64 first_due_q16;    // when the first packet was due
	__u64 last_due_q16;     // when the last packet was due
	__u64 lag_ns;           // what is left of a pause: packets come so much after they are due
};

struct segment {
	__u64 kind;
	__u64 duration_q16;     // 0: endless
	__u64 a;                // CONSTANT, RANDOM: (mean) gap q16; BURST: gap in the burst; RAMP: from, in 1/1000 packet/s
	__u64 b;                // BURST: gap to the next burst; RAMP: to, in 1/1000 packet/s
	__u64 c;                // BURST: packets of a burst
};

// One frame length with everything that depends on it, all in wire order where it goes to the wire.
struct size {
	__u64 frame;            // length of the frame
	__u64 ip_length;        // IPv4 total length or IPv6 payload length
	__u64 udp_length;
	__u64 ip_checksum;      // IPv4 only
	__u64 udp_sum;          // IPv6 only: unfolded one's-complement sum of all that the stamp and source port don't change
};

struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, struct config); }
	CONFIG SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, struct state); }
	STATE SEC(".maps");
// Not 0: stop now.
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1); __type(key, __u32); __type(value, __u64); }
	STOP SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, SEGMENTS); __type(key, __u32); __type(value, struct segment); }
	SEGMENT_TABLE SEC(".maps");
// Quantiles of the exponential distribution with mean 1, q16.
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, FACTORS); __type(key, __u32); __type(value, __u64); }
	FACTOR_TABLE SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, SIZES); __type(key, __u32); __type(value, struct size); }
	SIZE_TABLE SEC(".maps");
// Entry n counts packets late by 2^(n-1) ≤ ns < 2^n; entry 0 those exactly on time.
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, LATENESS_BUCKETS); __type(key, __u32); __type(value, __u64); }
	LATENESS SEC(".maps");

// 22 bytes, big-endian, at the start of the UDP payload. crates/ringtap-testbed/src/stamp.rs reads it.
struct stamp {
	__be32 magic;
	__be16 stream;
	__be64 seq;
	__be64 time_ns;
} __attribute__((packed, aligned(2)));

struct udp {
	__be16 source;
	__be16 destination;
	__be16 length;
	__be16 checksum;
	struct stamp stamp;
} __attribute__((packed, aligned(2)));

struct spin {
	__u64 until;
	__u64 now;
};

static long spin_once(__u32 turn, void *context)
{
	struct spin *spin = context;

	(void)turn;
	spin->now = bpf_ktime_get_ns();
	return spin->now >= spin->until;
}

static __always_inline __u64 next_random(struct state *st)
{
	// xorshift64 (Marsaglia 2003).
	__u64 x = st->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	st->random = x;
	return x;
}

static __always_inline void next_segment(struct state *st, struct segment *seg)
{
	st->segment_start_q16 += seg->duration_q16;
	st->next_q16 = st->segment_start_q16;
	st->segment++;
	st->burst_position = 0;
}

static __always_inline __u64 ramp_gap(struct state *st, struct segment *seg)
{
	__u64 at_us = (st->next_q16 - st->segment_start_q16) / (65536ULL * 1000);
	__u64 length_us = seg->duration_q16 / (65536ULL * 1000);
	__u64 rate;

	if (!length_us)
		length_us = 1;
	if (seg->b >= seg->a)
		rate = seg->a + (seg->b - seg->a) * at_us / length_us;
	else
		rate = seg->a - (seg->a - seg->b) * at_us / length_us;
	if (!rate)
		rate = 1;
	return (1000000000000ULL << 16) / rate;
}

static __always_inline void advance(struct state *st, struct segment *seg)
{
	__u64 gap = seg->a;

	if (seg->kind == RANDOM) {
		__u32 key = next_random(st) >> 20 & (FACTORS - 1);
		__u64 *factor = bpf_map_lookup_elem(&FACTOR_TABLE, &key);

		// Mean gaps up to 2^47 q16 (2 s) times factors up to 10 stay below 2^64 when the factor loses 4 bits first.
		if (factor)
			gap = ((gap >> 4) * (*factor >> 4)) >> 8;
	} else if (seg->kind == BURST) {
		st->burst_position++;
		if (st->burst_position >= seg->c) {
			st->burst_position = 0;
			gap = seg->b;
		}
	} else if (seg->kind == RAMP) {
		gap = ramp_gap(st, seg);
	}
	st->gap_q16 = gap;
	st->next_q16 += gap;
	if (seg->duration_q16 && st->next_q16 - st->segment_start_q16 >= seg->duration_q16)
		next_segment(st, seg);
}

static __always_inline __u64 pause_ns(struct state *st)
{
	__u64 ns = (st->gap_q16 >> 16) * PAUSE_PACKETS;

	if (ns < LEAST_PAUSE_NS)
		return LEAST_PAUSE_NS;
	return ns > LONGEST_PAUSE_NS ? LONGEST_PAUSE_NS : ns;
}

static __always_inline void count_lateness(struct state *st, __u64 late_ns)
{
	__u64 rest = late_ns;
	__u32 bucket = 0;
	__u64 *count;

	if (rest >> 32) { bucket += 32; rest >>= 32; }
	if (rest >> 16) { bucket += 16; rest >>= 16; }
	if (rest >> 8) { bucket += 8; rest >>= 8; }
	if (rest >> 4) { bucket += 4; rest >>= 4; }
	if (rest >> 2) { bucket += 2; rest >>= 2; }
	if (rest >> 1) { bucket += 1; rest >>= 1; }
	bucket += rest;
	if (bucket >= LATENESS_BUCKETS)
		bucket = LATENESS_BUCKETS - 1;
	count = bpf_map_lookup_elem(&LATENESS, &bucket);
	if (count)
		(*count)++;
	if (late_ns > st->late_max_ns)
		st->late_max_ns = late_ns;
	if (late_ns > LATE_NS)
		st->late++;
}

static __always_inline __u64 sum_stamp(__u64 seq, __u64 time_ns, struct config *cf)
{
	__u64 sum = (cf->magic >> 16 & 0xffff) + (cf->magic & 0xffff) + (cf->stream & 0xffff);

	sum += (seq >> 48) + (seq >> 32 & 0xffff) + (seq >> 16 & 0xffff) + (seq & 0xffff);
	sum += (time_ns >> 48) + (time_ns >> 32 & 0xffff) + (time_ns >> 16 & 0xffff) + (time_ns & 0xffff);
	return sum;
}

// Writes headers and stamp. The kernel recycles the pages of earlier frames, and a receiver may have changed them (the
// stack takes a VLAN tag out in place, for one), so every header field is written each time.
static __always_inline int fill(struct xdp_md *ctx, struct config *cf, __u64 sent, __u64 now, __u64 *length)
{
	__u64 seq = cf->first_seq + sent;
	__u32 entry = cf->sizes > 1 ? sent % cf->sizes : 0;
	struct size *size = bpf_map_lookup_elem(&SIZE_TABLE, &entry);
	__u64 port = cf->source_port + (cf->flows > 1 ? sent % cf->flows : 0);
	__u64 ip_offset = cf->ip_offset & 31;
	__u64 udp_offset = (cf->stamp_offset - 8) & 127;
	void *data, *end;
	struct udp *udp;
	__u64 *words;
	__be16 *ip;

	if (!size || size->frame > cf->full_size)
		return -1;
	if (size->frame < cf->full_size && bpf_xdp_adjust_tail(ctx, (int)size->frame - (int)cf->full_size))
		return -1;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	*length = size->frame;

	// Whole words up to somewhere in the UDP header or the stamp, which are written afterwards.
	words = data;
	if ((void *)(words + 8) > end)
		return -1;
	words[0] = cf->header[0];
	words[1] = cf->header[1];
	words[2] = cf->header[2];
	words[3] = cf->header[3];
	words[4] = cf->header[4];
	if (cf->ip_version == 6) {
		words[5] = cf->header[5];
		words[6] = cf->header[6];
		words[7] = cf->header[7];
	}

	ip = data + ip_offset;
	if ((void *)(ip + 6) > end)
		return -1;
	if (cf->ip_version == 4) {
		ip[1] = bpf_htons(size->ip_length);
		ip[5] = bpf_htons(size->ip_checksum);
	} else {
		ip[2] = bpf_htons(size->ip_length);
	}

	udp = data + udp_offset;
	if ((void *)(udp + 1) > end)
		return -1;
	udp->source = bpf_htons(port);
	udp->destination = bpf_htons(cf->destination_port);
	udp->checksum = 0;
	udp->length = bpf_htons(size->udp_length);
	udp->stamp.magic = bpf_htonl(cf->magic);
	udp->stamp.stream = bpf_htons(cf->stream);
	udp->stamp.seq = bpf_cpu_to_be64(seq);
	udp->stamp.time_ns = bpf_cpu_to_be64(now);
	if (cf->ip_version == 6) {
		// A UDP checksum of 0 is not allowed over IPv6 (RFC 8200 section 8.1), so it is computed.
		__u64 sum = size->udp_sum + (port & 0xffff) + sum_stamp(seq, now, cf);

		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		sum = ~sum & 0xffff;
		udp->checksum = sum ? bpf_htons(sum) : 0xffff;
	}
	return 0;
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct config *cf = bpf_map_lookup_elem(&CONFIG, &zero);
	struct state *st = bpf_map_lookup_elem(&STATE, &zero);
	__u64 *stop = bpf_map_lookup_elem(&STOP, &zero);
	__u64 due, earliest, late, length = 0;
	struct segment *seg;
	struct spin spin;
	__u32 key;

	if (!cf || !st || !stop)
		return XDP_ABORTED;
	// The kernel flushes after every `batch` runs of a call; calls are whole multiples of a batch.
	if (cf->batch < 2 || st->runs % cf->batch == 0)
		st->held_since_ns = 0;
	st->runs++;
	if (*(volatile __u64 *)stop || st->done)
		return XDP_DROP;

	key = st->segment;
	seg = bpf_map_lookup_elem(&SEGMENT_TABLE, &key);
	if (!seg) {
		st->done = 1;
		return XDP_DROP;
	}
	if (seg->kind == SILENCE) {
		// An endless silence is the end of the table.
		if (!seg->duration_q16)
			st->done = 1;
		next_segment(st, seg);
		return XDP_DROP;
	}

	due = st->base_ns + (st->next_q16 >> 16);
	// Overdue by the last reading already: reading the clock costs as much as the rest of this program, and would make the
	// sender the end of what is measured. So it is read for the first packet of a batch and for every fourth.
	if (st->held_since_ns && st->last_ns >= due + st->lag_ns && st->runs & 3)
		spin.now = st->last_ns;
	else
		spin.now = bpf_ktime_get_ns();
	if (!st->base_ns) {
		st->base_ns = spin.now;
		due += spin.now;
	}
	// A pause of this core must not become a burst that overflows a ring: what it held back comes at 4/3 of the rate.
	if (spin.now > due + st->lag_ns + pause_ns(st))
		st->lag_ns = spin.now - due;
	earliest = due + st->lag_ns;
	// Better an unfilled batch, flushed now, than a frame that waits for its successors.
	if (st->held_since_ns && earliest > st->held_since_ns + cf->hold_ns)
		return XDP_DROP;
	if (earliest > spin.now) {
		spin.until = spin.now + SLICE_NS;
		if (earliest < spin.until)
			spin.until = earliest;
		bpf_loop(SPIN_TURNS, spin_once, &spin, 0);
		if (spin.now < earliest)
			return XDP_DROP;
	}

	if (fill(ctx, cf, st->sent, spin.now, &length))
		return XDP_ABORTED;
	late = spin.now - due;
	count_lateness(st, late);
	st->lag_ns -= st->lag_ns < st->gap_q16 >> 18 ? st->lag_ns : st->gap_q16 >> 18;
	if (late > cf->max_late_ns) {
		st->base_ns += late;
		st->lag_ns = 0;
		st->slipped_ns += late;
		st->slips++;
	}
	if (!st->sent) {
		st->first_ns = spin.now;
		st->first_due_q16 = st->next_q16;
	}
	st->last_due_q16 = st->next_q16;
	if (!st->held_since_ns)
		st->held_since_ns = spin.now;
	st->last_ns = spin.now;
	st->bytes += length;
	st->sent++;
	if (cf->limit && st->sent >= cf->limit)
		st->done = 1;
	advance(st, seg);
	return bpf_redirect(cf->ifindex, 0);
}

// Not GPL-only in what it calls, and free to be used with the crate's licence.
char LICENSE[] SEC("license") = "Dual MIT/GPL";
