// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Who had a CPU: at each context switch the time since the one before goes to the task that ends its turn.
 *
 * Owns the sum of the turns of other programs: neither the kernel's own threads, nor this process, nor what it started.
 * Interrupts count to whom they interrupt. What is made of the sum is crates/ringtap/src/core_use/others.rs's affair.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define PF_KTHREAD 0x00200000
#define GENERATIONS 8

/* The fields that are looked at; where they lie is relocated when the program is loaded. */
struct task_struct {
	unsigned int flags;
	int tgid;
	struct task_struct *real_parent;
} __attribute__((preserve_access_index));

/* Set before loading. */
const volatile __u32 measured_cpu = 0;
const volatile int own_tgid = 0;

struct turn {
	__u64 since_ns;
	__u64 others_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct turn);
} TURN SEC(".maps");

static __always_inline int is_other(struct task_struct *task)
{
	/* The idle task is number 0. */
	if (task->tgid == 0 || task->flags & PF_KTHREAD)
		return 0;
	for (int i = 0; i < GENERATIONS; i++) {
		if (task->tgid == own_tgid)
			return 0;
		if (task->tgid <= 1)
			break;
		task = task->real_parent;
	}
	return 1;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(core_use, _Bool preempt, struct task_struct *prev)
{
	__u32 zero = 0;

	if (bpf_get_smp_processor_id() != measured_cpu)
		return 0;
	struct turn *turn = bpf_map_lookup_elem(&TURN, &zero);
	if (!turn)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	if (turn->since_ns && is_other(prev))
		turn->others_ns += now - turn->since_ns;
	turn->since_ns = now;
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
