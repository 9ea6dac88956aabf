// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// A forwarder in the kernel, as a peer: each frame of a device leaves by another one.
//
// Owns nothing but that. It counts nothing: what arrives is counted at the other end.

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

// Set before loading.
const volatile __u32 output = 0;

SEC("xdp")
int redirect(struct xdp_md *ctx)
{
	(void)ctx;
	return bpf_redirect(output, 0);
}

char _license[] SEC("license") = "Dual MIT/GPL";
