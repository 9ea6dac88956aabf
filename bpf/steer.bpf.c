// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Steering: what was asked for goes to the AF_XDP socket of its receive queue, everything else to the host stack.
 *
 * Owns the selection in the kernel, the arrival stamp in front of the frame, and the counters of both. The rules, the
 * sockets and the attachment belong to crates/ringtap/src/steer.rs, whose layout of `struct rule` and of the counters
 * must be this one (a test loads the program and checks every kind of rule against real frames).
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_RULES 32
#define MAX_QUEUES 1024
#define MAX_TAGS 2
#define MAX_EXTENSION_HEADERS 8 /* more may be left out (RFC 8504 section 5.3) */
#define LONGEST_METADATA 252 /* bytes, a multiple of 4 (xdp_metalen_invalid) */

/* RFC 4861 sections 4.3 and 4.4. */
#define NEIGHBOUR_SOLICITATION 135
#define NEIGHBOUR_ADVERTISEMENT 136

/* Which parts of a rule count; a rule with none set takes every frame. */
#define MATCH_VLAN 0x01
#define MATCH_ADDRESS 0x02
#define MATCH_PROTOCOL 0x04
#define MATCH_PORT 0x08
#define MATCH_FAMILY 0x10
#define FROM_SOURCE 0x20      /* address and port may be the source's */
#define FROM_DESTINATION 0x40 /* address and port may be the destination's */
#define MATCH_WHOLE 0x80      /* no fragment, so that the host's stack can put the datagram together */

struct rule {
	__u32 flags;
	__u16 vlan;   /* outermost tag's VLAN identifier */
	__u16 family; /* 4 or 6 */
	__u16 port_low;
	__u16 port_high;
	__u32 protocol;
	__u32 address[4]; /* network order; IPv4 in the first word */
	__u32 mask[4];
};

/* Order of the counters in the per-CPU array's one element. A frame seen is in one of the first three. */
enum counter { TAKEN, PASSED, NO_SOCKET, UNSTAMPED, COUNTERS };

struct counters {
	__u64 value[COUNTERS];
};

/* Put before the frame's first byte, as part of what is delivered; the cookie tells it from a frame that has none. */
struct stamp {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 cookie;
};

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_RULES);
	__type(key, __u32);
	__type(value, struct rule);
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counts SEC(".maps");

/*
 * Whether the frames of a queue concern us at all; all start shut. User space opens them when every socket is in place
 * and shuts one when its engine ends, so that the counters tell of exactly the time in which packets were taken.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} gates SEC(".maps");

/* Set by the loader before the program is loaded. */
const volatile __u32 rule_count = 0; /* 0: take everything */
const volatile __u64 cookie = 0;
const volatile __u32 spares_link_control = 0; /* on a port of a bond or team */

/* What the rules ask about, found in one pass over the headers. */
struct facts {
	__u32 vlan; /* 0xffff: untagged */
	__u32 family; /* 0: not IP */
	__u32 protocol;
	__u32 source[4];
	__u32 destination[4];
	__u32 source_port;
	__u32 destination_port;
	__u32 has_ports; /* not in later fragments */
	__u32 is_fragment; /* the first one or a later one */
};

struct tag {
	__be16 control;
	__be16 next_type;
};

struct ports {
	__be16 source;
	__be16 destination;
};

static __always_inline void read_ports(void *at, void *end, struct facts *facts)
{
	struct ports *ports = at;

	if (facts->protocol != IPPROTO_TCP && facts->protocol != IPPROTO_UDP && facts->protocol != IPPROTO_SCTP)
		return;
	if ((void *)(ports + 1) > end)
		return;
	facts->source_port = bpf_ntohs(ports->source);
	facts->destination_port = bpf_ntohs(ports->destination);
	facts->has_ports = 1;
}

static __always_inline void read_ipv4(void *at, void *end, struct facts *facts)
{
	struct iphdr *ip = at;
	__u32 length;

	if ((void *)(ip + 1) > end || ip->version != 4)
		return;
	facts->family = 4;
	facts->protocol = ip->protocol;
	facts->source[0] = ip->saddr;
	facts->destination[0] = ip->daddr;
	length = ip->ihl * 4;
	/* RFC 791: more fragments, or an offset. */
	facts->is_fragment = (ip->frag_off & bpf_htons(0x3fff)) != 0;
	/* RFC 791: only the fragment at offset 0 has the ports. */
	if (length < sizeof(*ip) || (ip->frag_off & bpf_htons(0x1fff)))
		return;
	read_ports(at + length, end, facts);
}

static __always_inline void read_ipv6(void *at, void *end, struct facts *facts)
{
	struct ipv6hdr *ip = at;
	__u8 next;
	int i;

	if ((void *)(ip + 1) > end || ip->version != 6)
		return;
	facts->family = 6;
	__builtin_memcpy(facts->source, &ip->saddr, 16);
	__builtin_memcpy(facts->destination, &ip->daddr, 16);
	next = ip->nexthdr;
	at = ip + 1;
	for (i = 0; i < MAX_EXTENSION_HEADERS; i++) {
		__u8 *header = at;

		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS && next != IPPROTO_FRAGMENT)
			break;
		if (at + 8 > end)
			return;
		/* RFC 8200 section 4.5: a fragment header is 8 bytes; a non-zero offset means no ports here. */
		if (next == IPPROTO_FRAGMENT) {
			facts->is_fragment |= (*(__be16 *)(at + 2) & bpf_htons(0xfff9)) != 0;
			if (*(__be16 *)(at + 2) & bpf_htons(0xfff8)) {
				facts->protocol = header[0];
				return;
			}
			next = header[0];
			at += 8;
			continue;
		}
		next = header[0];
		at += ((__u32)header[1] + 1) * 8;
	}
	facts->protocol = next;
	read_ports(at, end, facts);
}

/*
 * The type of what follows the tags, and where that is; 0 for a frame that ends before. *vlan is the outermost tag's
 * identifier, where there is one.
 */
static __always_inline __be16 behind_tags(void **at, void *data, void *end, __u32 *vlan)
{
	struct ethhdr *ethernet = data;
	__be16 type;
	int i;

	*at = ethernet + 1;
	if (*at > end)
		return 0;
	type = ethernet->h_proto;
	for (i = 0; i < MAX_TAGS; i++) {
		struct tag *tag = *at;

		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		if ((void *)(tag + 1) > end)
			return 0;
		if (i == 0)
			*vlan = bpf_ntohs(tag->control) & 0x0fff;
		type = tag->next_type;
		*at = tag + 1;
	}
	return type;
}

static __always_inline void read_facts(void *data, void *end, struct facts *facts)
{
	__be16 type;
	void *at;

	facts->vlan = 0xffff;
	type = behind_tags(&at, data, end, &facts->vlan);
	if (type == bpf_htons(ETH_P_IP))
		read_ipv4(at, end, facts);
	else if (type == bpf_htons(ETH_P_IPV6))
		read_ipv6(at, end, facts);
}

static __always_inline int address_matches(const struct rule *rule, const __u32 *address)
{
	return ((address[0] ^ rule->address[0]) & rule->mask[0]) == 0 && ((address[1] ^ rule->address[1]) & rule->mask[1]) == 0 &&
	       ((address[2] ^ rule->address[2]) & rule->mask[2]) == 0 && ((address[3] ^ rule->address[3]) & rule->mask[3]) == 0;
}

static __always_inline int side_matches(const struct rule *rule, const __u32 *address, __u32 port, __u32 has_ports)
{
	if ((rule->flags & MATCH_ADDRESS) && !address_matches(rule, address))
		return 0;
	if ((rule->flags & MATCH_PORT) && (!has_ports || port < rule->port_low || port > rule->port_high))
		return 0;
	return 1;
}

static __always_inline int rule_matches(const struct rule *rule, const struct facts *facts)
{
	if ((rule->flags & MATCH_VLAN) && facts->vlan != rule->vlan)
		return 0;
	if ((rule->flags & MATCH_FAMILY) && facts->family != rule->family)
		return 0;
	if ((rule->flags & MATCH_WHOLE) && facts->is_fragment)
		return 0;
	if ((rule->flags & MATCH_PROTOCOL) && (!facts->family || facts->protocol != rule->protocol))
		return 0;
	if (!(rule->flags & (MATCH_ADDRESS | MATCH_PORT)))
		return 1;
	if ((rule->flags & FROM_SOURCE) && side_matches(rule, facts->source, facts->source_port, facts->has_ports))
		return 1;
	return (rule->flags & FROM_DESTINATION) &&
	       side_matches(rule, facts->destination, facts->destination_port, facts->has_ports);
}

/*
 * What the host must see on a port of a bond or team to know that the port works: LACP, ARP and, for the targets of
 * IPv6, neighbour solicitations and advertisements, each with tags or without.
 */
static __always_inline int is_link_control(void *data, void *end)
{
	struct ipv6hdr *ip;
	__u32 vlan;
	__u8 *icmp;
	__be16 type;
	void *at;

	type = behind_tags(&at, data, end, &vlan);
	if (type == bpf_htons(ETH_P_SLOW) || type == bpf_htons(ETH_P_ARP))
		return 1;
	ip = at;
	icmp = (__u8 *)(ip + 1);
	if (type != bpf_htons(ETH_P_IPV6) || (void *)(icmp + 1) > end)
		return 0;
	return ip->nexthdr == IPPROTO_ICMPV6 && (*icmp == NEIGHBOUR_SOLICITATION || *icmp == NEIGHBOUR_ADVERTISEMENT);
}

static __always_inline int wanted(void *data, void *end)
{
	struct facts facts = {};
	__u32 i;

	if (spares_link_control && is_link_control(data, end))
		return 0;
	if (rule_count == 0)
		return 1;
	read_facts(data, end, &facts);
	for (i = 0; i < MAX_RULES; i++) {
		__u32 key = i;
		struct rule *rule;

		if (i >= rule_count)
			break;
		rule = bpf_map_lookup_elem(&rules, &key);
		if (rule && rule_matches(rule, &facts))
			return 1;
	}
	return 0;
}

/*
 * Takes away what another XDP program wrote in front of the packet before it redirected it here: the kernel would copy it to
 * what lies in front of the packet's frame, and with packed frames that is another packet's end. In steps, as its length is
 * not ours to compute; where the driver has no metadata it begins behind the data.
 */
static __always_inline void forget_metadata(struct xdp_md *context)
{
	__u32 i;

	for (i = 0; i < LONGEST_METADATA / 4; i++) {
		void *metadata = (void *)(long)context->data_meta;

		if (metadata + 4 > (void *)(long)context->data || bpf_xdp_adjust_meta(context, 4))
			break;
	}
}

/*
 * The array is per CPU so that CPUs do not share a cache line, and added to atomically all the same: on PREEMPT_RT receive
 * threads of one CPU are preemptible, and since Linux 6.18 no lock of the softirqs need keep two apart
 * (PREEMPT_RT_NEEDS_BH_LOCK), so that one may come between another's load and store. One locked instruction a frame.
 */
static __always_inline void count_one(struct counters *count, enum counter which)
{
	__sync_fetch_and_add(&count->value[which], 1);
}

SEC("xdp")
int ringtap_steer(struct xdp_md *context)
{
	/* Queues beyond the table never have a socket; they go with the first one's gate. */
	__u32 queue = context->rx_queue_index < MAX_QUEUES ? context->rx_queue_index : 0;
	struct counters *count;
	struct stamp *stamp;
	__u32 key = 0;
	__u32 *open;

	open = bpf_map_lookup_elem(&gates, &queue);
	count = bpf_map_lookup_elem(&counts, &key);
	if (!open || !*open || !count)
		return XDP_PASS;
	if (!wanted((void *)(long)context->data, (void *)(long)context->data_end)) {
		count_one(count, PASSED);
		return XDP_PASS;
	}
	if (bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS) != XDP_REDIRECT) {
		count_one(count, NO_SOCKET);
		return XDP_PASS;
	}
	count_one(count, TAKEN);
	forget_metadata(context);
	/*
	 * Only now, as a passed frame must begin with its own header. Not as metadata: that would lie in front of what is
	 * delivered, where packed frames have their predecessor's end. A frame without room for the stamp is taken all the
	 * same: user space sees no cookie and reports no latency.
	 */
	if (bpf_xdp_adjust_head(context, -(int)sizeof(*stamp)) == 0) {
		stamp = (void *)(long)context->data;
		if ((void *)(stamp + 1) <= (void *)(long)context->data_end) {
			stamp->time_ns = bpf_ktime_get_ns();
			stamp->cookie = cookie;
		}
	} else {
		count_one(count, UNSTAMPED);
	}
	return XDP_REDIRECT;
}

char _license[] SEC("license") = "Dual MIT/GPL";
