/* libringtap: packets of an interface within a latency bound, and where each of them went.
 *
 * Made by cbindgen from crates/ringtap-c; docs/c-api.md tells how it is used, by which threads, and with which errors. */

#ifndef RINGTAP_H
#define RINGTAP_H

#include <stddef.h>
#include <stdint.h>

/**
 * It is done.
 */
#define RINGTAP_OK 0

/**
 * A null or closed handle, a null pointer, a value out of range, a structure of an unknown size.
 */
#define RINGTAP_ERROR_ARGUMENT -1

/**
 * The system refused, or there is no such interface; ringtap_error() has the words.
 */
#define RINGTAP_ERROR_FAILED -2

/**
 * The system refused for want of a privilege: CAP_NET_RAW for packet sockets, CAP_NET_ADMIN and CAP_BPF for AF_XDP.
 */
#define RINGTAP_ERROR_PERMISSION -3

/**
 * No packets can come any more: the interface was removed or moved, or the host uses it now. All that had come was given before.
 */
#define RINGTAP_ERROR_GONE -4

/**
 * Another call with this handle is under way, in another thread.
 */
#define RINGTAP_ERROR_BUSY -5

/**
 * A fault of the library's own. The handle can only be closed.
 */
#define RINGTAP_ERROR_INTERNAL -6

/**
 * ringtap_break() was called. No error: the next call goes on.
 */
#define RINGTAP_BROKEN -7

/**
 * ringtap_stop() was called, and all that had come was given.
 */
#define RINGTAP_END -8

/**
 * AF_XDP where that takes nothing from the host against its will, else the packet ring.
 */
#define RINGTAP_BACKEND_AUTO 0

/**
 * AF_XDP: packets leave the host's stack.
 */
#define RINGTAP_BACKEND_XDP 1

/**
 * A packet socket's ring: packets are copied beside the host's stack.
 */
#define RINGTAP_BACKEND_PACKET 2

/**
 * In place of a count that can't be read, or that counts other things as well.
 */
#define RINGTAP_UNKNOWN 18446744073709551615ull

/**
 * In place of unaccounted packets where a part of the sum is unknown.
 */
#define RINGTAP_UNACCOUNTED_UNKNOWN 9223372036854775807

/**
 * Room for causes of loss in a ledger.
 */
#define RINGTAP_CAUSES 32

/**
 * In ringtap_packet.flags: its transport checksum is still to be computed, as this host sends it or has merged it.
 */
#define RINGTAP_CHECKSUM_PENDING 1

/**
 * An open capture.
 */
struct ringtap;

/**
 * What to capture and how. ringtap_options_init() fills in the defaults; then change what should be otherwise.
 */
struct ringtap_options {
  /**
   * Of this structure in bytes, as ringtap_options_init() was told.
   */
  size_t size;
  /**
   * Name of an interface in the calling thread's network namespace, which is up. It is copied. No default.
   */
  const char *interface;
  /**
   * RINGTAP_BACKEND_…; default AUTO.
   */
  uint32_t backend;
  /**
   * 1 (default): take frames that are addressed to others, too.
   */
  uint32_t promiscuous;
  /**
   * 1: with AUTO, packets may be taken away from the host's stack on an interface that the host uses itself. Default 0.
   */
  uint32_t take;
  /**
   * Bytes given of a packet at most, up to 262144; 0 (default): all.
   */
  uint32_t snaplen;
  /**
   * Nanoseconds from a packet's arrival to its delivery at most, as long as the caller is waiting in ringtap_next_burst():
   * 10000 to 1000000000; default 1000000. The longer, the less CPU is used.
   */
  uint64_t max_latency_ns;
  /**
   * Bytes that the rings of all queues may take together, 1 MiB to 16 GiB; default 32 MiB. A ring holds what comes while the caller is
   * at work.
   */
  uint64_t ring_bytes;
};

/**
 * A packet, lent until the next call of ringtap_next_burst(), ringtap_release(), ringtap_stop() or ringtap_close().
 */
struct ringtap_packet {
  /**
   * The captured bytes, from the link-layer header on.
   */
  const uint8_t *data;
  /**
   * When it arrived, nanoseconds since 1970 (CLOCK_REALTIME); 0: the device did not say.
   */
  uint64_t arrival_ns;
  /**
   * How many bytes there are.
   */
  uint32_t captured_len;
  /**
   * How many there were on the wire; more than captured_len where the packet was cut.
   */
  uint32_t wire_len;
  /**
   * RINGTAP_CHECKSUM_PENDING or 0.
   */
  uint32_t flags;
  /**
   * Which of the receive queues that are read it came by, from 0 on.
   */
  uint32_t queue;
};

/**
 * Packets lost for one cause.
 */
struct ringtap_drop {
  /**
   * Its name, which stays valid and the same: "ring_full".
   */
  const char *cause;
  /**
   * How many, or RINGTAP_UNKNOWN.
   */
  uint64_t packets;
};

/**
 * Where every packet went since ringtap_open(): offered = delivered + filtered + all drops + unaccounted.
 */
struct ringtap_ledger {
  /**
   * Packets that came to the device for this capture, or RINGTAP_UNKNOWN.
   */
  uint64_t offered;
  /**
   * Packets given by ringtap_next_burst().
   */
  uint64_t delivered;
  /**
   * Packets left to the host, or RINGTAP_UNKNOWN.
   */
  uint64_t filtered;
  /**
   * Packets known to be lost: the sum of the drops that are known.
   */
  uint64_t lost;
  /**
   * Delivered packets shorter than on the wire; no term of the sum.
   */
  uint64_t cut;
  /**
   * What no counter explains, or RINGTAP_UNACCOUNTED_UNKNOWN. Until ringtap_stop() packets that wait in a ring are in it; it is below
   * 0 where more came out than was counted.
   */
  int64_t unaccounted;
  /**
   * How many of the drops below are set.
   */
  size_t causes;
  /**
   * Each cause of loss, also those that lost nothing.
   */
  struct ringtap_drop drops[RINGTAP_CAUSES];
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Fills in the defaults. `size` is sizeof(struct ringtap_options).
 *
 * Returns RINGTAP_OK, or RINGTAP_ERROR_ARGUMENT for a null pointer or a size that this library does not know.
 */
int ringtap_options_init(struct ringtap_options *options, size_t size);

/**
 * Opens a capture. Packets are received from here on, and kept in the rings until ringtap_next_burst() gives them. Only packets that come
 * in are captured, none that this host sends.
 *
 * Returns RINGTAP_OK and sets `*handle`, or an error and sets it to NULL; ringtap_error(NULL) has the words then, on this thread.
 */
int ringtap_open(const struct ringtap_options *options,
                 struct ringtap **handle);

/**
 * Gives the next packets, in order of their arrival by one queue, at most 64. Those given before go back to the ring first.
 *
 * Waits until packets come, for `timeout_ms` milliseconds at most: 0 only looks, below 0 waits for good.
 *
 * Returns how many there are and sets `*packets` to the first of them, or 0 and NULL when the time has passed, or an error, RINGTAP_BROKEN
 * or RINGTAP_END.
 */
int ringtap_next_burst(struct ringtap *handle,
                       int timeout_ms,
                       const struct ringtap_packet **packets);

/**
 * Gives the packets of the last burst back before the next call of ringtap_next_burst(), which does it otherwise.
 *
 * Returns RINGTAP_OK, RINGTAP_ERROR_ARGUMENT or RINGTAP_ERROR_BUSY.
 */
int ringtap_release(struct ringtap *handle);

/**
 * Ends the call of ringtap_next_burst() that is under way, or else the next one, with RINGTAP_BROKEN. For any thread and for signal
 * handlers: async-signal-safe, and errno stays what it was.
 *
 * Returns RINGTAP_OK or RINGTAP_ERROR_ARGUMENT.
 */
int ringtap_break(struct ringtap *handle);

/**
 * Ends the flow of packets: they stay with the host from now on. ringtap_next_burst() gives what had come, then RINGTAP_END, and the
 * ledger is exact then. Packets of the last burst go back.
 *
 * Returns RINGTAP_OK, also when it was called before, RINGTAP_ERROR_ARGUMENT or RINGTAP_ERROR_BUSY.
 */
int ringtap_stop(struct ringtap *handle);

/**
 * Tells where the packets went since ringtap_open(). For any thread, also while another is in ringtap_next_burst(); not for signal
 * handlers. `size` is sizeof(struct ringtap_ledger).
 *
 * Returns RINGTAP_OK or RINGTAP_ERROR_ARGUMENT.
 */
int ringtap_ledger(struct ringtap *handle,
                   struct ringtap_ledger *ledger,
                   size_t size);

/**
 * Says why the last call with this handle failed that did; with NULL, why this thread's last ringtap_open() failed.
 *
 * Returns a text of one line in UTF-8, empty where nothing failed. It is the calling thread's until that calls ringtap_error() again.
 */
const char *ringtap_error(const struct ringtap *handle);

/**
 * Says in words what a code means. The text stays valid.
 */
const char *ringtap_strerror(int code);

/**
 * Says what could not be had when the capture was opened and goes on without, one sentence for each `index` from 0 on; NULL behind the
 * last one, and for a handle that is null. Valid until ringtap_close().
 */
const char *ringtap_warning(const struct ringtap *handle,
                            size_t index);

/**
 * Names the back end that is used: "xdp" or "packet"; NULL for a handle that is null. Valid until ringtap_close().
 */
const char *ringtap_backend(const struct ringtap *handle);

/**
 * Tells of which kind the packets are, as capture files say it: 1 is Ethernet (LINKTYPE_ of www.tcpdump.org/linktypes.html).
 *
 * Returns the value, RINGTAP_ERROR_FAILED where capture files know no such kind, or RINGTAP_ERROR_ARGUMENT.
 */
int ringtap_link_type(const struct ringtap *handle);

/**
 * Ends the capture, puts back what was set on the host for it, and frees everything, packets that are still lent included. The handle is
 * no longer valid then, for no thread.
 *
 * Returns RINGTAP_OK; RINGTAP_ERROR_ARGUMENT for a null handle; RINGTAP_ERROR_BUSY, with everything as it was, while another thread is in
 * a call with it: break that off first, and wait for its end.
 */
int ringtap_close(struct ringtap *handle);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* RINGTAP_H */
