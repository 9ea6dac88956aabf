/*
 * What a client may expect of libpcap on a live capture, one case per run: behaviour CASE CAPTURED PEER.
 *
 * CAPTURED and PEER are the two ends of a veth pair in this namespace: frames sent on PEER come in on CAPTURED. The cases
 * hold for the system's libpcap and for ours; RINGTAP_TEST_OURS=1 adds what only ours promises.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <pcap/pcap.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *captured, *peer;
static int ours;

#define CHECK(condition, ...)                                                       \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: %s failed: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                           \
            fprintf(stderr, "\n");                                                  \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

/* A raw socket on an interface; it receives only when it is to. */
static int raw_socket(const char *interface, int receives)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(interface)};
    address.sll_protocol = receives ? htons(0x0003) : 0;
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0, "%s", strerror(errno));
    return fd;
}

/* A UDP datagram of `size` bytes on the wire, with or without a tag; its number is in the payload. */
static int frame(unsigned char *buffer, int size, int port, int vlan, unsigned number)
{
    static const unsigned char macs[12] = {2, 0, 0, 0, 0, 0xbb, 2, 0, 0, 0, 0, 0xaa};
    unsigned char *at = buffer;
    memset(buffer, 0, size);
    memcpy(at, macs, 12);
    at += 12;
    if (vlan >= 0) {
        *at++ = 0x81;
        *at++ = 0;
        *at++ = vlan >> 8;
        *at++ = vlan & 255;
    }
    *at++ = 8;
    *at++ = 0;
    int ip_len = size - (int)(at - buffer);
    unsigned char ip[20] = {0x45, 0, ip_len >> 8, ip_len & 255, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 9, 1, 198, 18, 9, 2};
    unsigned sum = 0;
    for (int i = 0; i < 20; i += 2)
        sum += ip[i] << 8 | ip[i + 1];
    sum = (sum >> 16) + (sum & 0xffff);
    ip[10] = ~sum >> 8;
    ip[11] = ~sum & 255;
    memcpy(at, ip, 20);
    at += 20;
    unsigned char udp[8] = {0x30, 0x39, port >> 8, port & 255, (ip_len - 20) >> 8, (ip_len - 20) & 255, 0, 0};
    memcpy(at, udp, 8);
    at += 8;
    memcpy(at, &number, 4);
    return size;
}

static void send_on(int fd, int count, int size, int port, int vlan)
{
    unsigned char buffer[2048];
    for (int i = 0; i < count; i++) {
        int len = frame(buffer, size, port, vlan, i);
        while (send(fd, buffer, len, 0) != len)
            CHECK(errno == ENOBUFS || errno == EAGAIN, "send: %s", strerror(errno));
    }
}

static void send_frames(int count, int size, int port, int vlan)
{
    int fd = raw_socket(peer, 0);
    send_on(fd, count, size, port, vlan);
    close(fd);
}

static pcap_t *create(void)
{
    char errbuf[PCAP_ERRBUF_SIZE] = "";
    pcap_t *p = pcap_create(captured, errbuf);
    CHECK(p, "%s", errbuf);
    CHECK(pcap_set_promisc(p, 1) == 0 && pcap_set_timeout(p, 200) == 0, "options");
    CHECK(pcap_set_immediate_mode(p, 1) == 0, "immediate mode");
    return p;
}

static void filter(pcap_t *p, const char *text)
{
    struct bpf_program program;
    CHECK(pcap_compile(p, &program, text, 1, PCAP_NETMASK_UNKNOWN) == 0, "%s", pcap_geterr(p));
    CHECK(pcap_setfilter(p, &program) == 0, "%s", pcap_geterr(p));
    pcap_freecode(&program);
}

static pcap_t *activate(pcap_t *p)
{
    int status = pcap_activate(p);
    CHECK(status == 0, "pcap_activate: %d %s", status, pcap_geterr(p));
    filter(p, "udp or (vlan and udp)");
    return p;
}

struct seen {
    pcap_t *p;
    unsigned count, break_at, last_number, reordered;
    struct pcap_pkthdr header;
    unsigned char data[4096];
};

static void see(u_char *user, const struct pcap_pkthdr *header, const u_char *data)
{
    struct seen *seen = (struct seen *)user;
    unsigned number = 0;
    seen->count++;
    seen->header = *header;
    memcpy(seen->data, data, header->caplen < sizeof seen->data ? header->caplen : sizeof seen->data);
    if (header->caplen >= 46) {
        memcpy(&number, data + 42, 4);
        seen->reordered += seen->count > 1 && number != seen->last_number + 1;
        seen->last_number = number;
    }
    if (seen->break_at && seen->count == seen->break_at)
        pcap_breakloop(seen->p);
}

/* Dispatches until `count` packets were seen in all, or a second has passed. */
static void see_all(pcap_t *p, struct seen *seen, unsigned count)
{
    for (int i = 0; i < 1000 && seen->count < count; i++) {
        int got = pcap_dispatch(p, -1, see, (u_char *)seen);
        CHECK(got >= 0, "pcap_dispatch: %d %s", got, pcap_geterr(p));
        if (got == 0)
            usleep(1000);
    }
    CHECK(seen->count == count, "%u of %u packets", seen->count, count);
}

/* Nothing more comes: asked without blocking, as not every libpcap keeps a timeout when nothing comes. */
static int is_silent(pcap_t *p, struct seen *seen)
{
    char errbuf[PCAP_ERRBUF_SIZE];
    usleep(50000);
    CHECK(pcap_setnonblock(p, 1, errbuf) == 0, "%s", errbuf);
    int got = pcap_dispatch(p, -1, see, (u_char *)seen);
    CHECK(pcap_setnonblock(p, 0, errbuf) == 0, "%s", errbuf);
    return got == 0;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void case_counts(void)
{
    pcap_t *p = activate(create());
    struct seen seen = {.p = p};
    send_frames(10, 100, 1000, -1);
    usleep(20000);
    CHECK(pcap_dispatch(p, 3, see, (u_char *)&seen) == 3 && seen.count == 3, "%u", seen.count);
    see_all(p, &seen, 10);
    CHECK(seen.reordered == 0, "order");
    send_frames(5, 100, 1000, -1);
    CHECK(pcap_loop(p, 5, see, (u_char *)&seen) == 0 && seen.count == 15, "%u", seen.count);
    send_frames(4, 100, 1000, -1);
    struct pcap_pkthdr *header;
    const u_char *data;
    for (int i = 0; i < 3; i++) {
        CHECK(pcap_next_ex(p, &header, &data) == 1 && header->len == 100 && data[43] == 0, "pcap_next_ex");
        CHECK(data[42] == i, "number %d", data[42]);
    }
    struct pcap_pkthdr copy;
    data = pcap_next(p, &copy);
    CHECK(data && copy.caplen == 100 && data[42] == 3, "pcap_next");
    pcap_close(p);
}

static void case_timeout(void)
{
    pcap_t *p = activate(create());
    struct seen seen = {.p = p};
    double start = now();
    CHECK(pcap_dispatch(p, -1, see, (u_char *)&seen) == 0, "nothing came");
    double passed = now() - start;
    CHECK(passed > 0.15 && passed < 2.0, "a timeout of 200 ms took %f s", passed);
    struct pcap_pkthdr *header;
    const u_char *data;
    CHECK(pcap_next_ex(p, &header, &data) == 0, "timeout of pcap_next_ex");
    pcap_close(p);
}

static void case_nonblocking(void)
{
    char errbuf[PCAP_ERRBUF_SIZE] = "";
    pcap_t *p = create();
    CHECK(pcap_setnonblock(p, 1, errbuf) == 0, "an option before activation");
    CHECK(pcap_getnonblock(activate(p), errbuf) == 1, "and kept by it");
    pcap_close(p);
    p = activate(create());
    struct seen seen = {.p = p};
    CHECK(pcap_getnonblock(p, errbuf) == 0, "blocking by default");
    CHECK(pcap_setnonblock(p, 1, errbuf) == 0 && pcap_getnonblock(p, errbuf) == 1, "%s", errbuf);
    double start = now();
    CHECK(pcap_dispatch(p, -1, see, (u_char *)&seen) == 0 && now() - start < 0.1, "returns at once");
    struct pollfd fd = {.fd = pcap_get_selectable_fd(p), .events = POLLIN};
    CHECK(fd.fd >= 0 && pcap_fileno(p) >= 0, "descriptors");
    /* A first call may be one for nothing. */
    poll(&fd, 1, 50);
    pcap_dispatch(p, -1, see, (u_char *)&seen);
    CHECK(poll(&fd, 1, 100) == 0, "silent while nothing comes");
    for (unsigned round = 1; round <= 5; round++) {
        send_frames(7, 100, 1000, -1);
        for (int i = 0; i < 50 && seen.count < 7 * round; i++) {
            CHECK(poll(&fd, 1, 1000) == 1, "readable when packets came (%u)", seen.count);
            CHECK(pcap_dispatch(p, round % 2 ? 1 : -1, see, (u_char *)&seen) >= 0, "%s", pcap_geterr(p));
        }
        CHECK(seen.count == 7 * round, "%u", seen.count);
        for (int i = 0; i < 3 && poll(&fd, 1, 20); i++)
            pcap_dispatch(p, -1, see, (u_char *)&seen);
        CHECK(poll(&fd, 1, 100) == 0, "silent again");
    }
    pcap_close(p);
}

/* A client such as dumpcap: blocking mode, and select(2) in front of each dispatch. */
static void case_select_blocking(void)
{
    pcap_t *p = activate(create());
    struct seen seen = {.p = p};
    int fd = pcap_get_selectable_fd(p);
    send_frames(300, 100, 1000, -1);
    for (int i = 0; i < 2000 && seen.count < 300; i++) {
        struct timeval limit = {.tv_usec = 250000};
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        if (select(fd + 1, &set, NULL, NULL, &limit) == 1)
            CHECK(pcap_dispatch(p, 1, see, (u_char *)&seen) >= 0, "%s", pcap_geterr(p));
    }
    CHECK(seen.count == 300 && seen.reordered == 0, "%u", seen.count);
    pcap_close(p);
}

static volatile int flood_done;

static void *flood(void *count)
{
    int fd = raw_socket(peer, 0);
    unsigned char buffer[128];
    for (unsigned i = 0; i < (unsigned)(uintptr_t)count; i++) {
        int len = frame(buffer, 100, 1000, -1, i);
        while (send(fd, buffer, len, 0) != len)
            ;
        if (i % 32 == 31)
            usleep(100);
    }
    close(fd);
    flood_done = 1;
    return NULL;
}

/* A rate at which the pacer turns to its timer: nothing is lost or out of order, blocking and by descriptor. */
static void case_storm(void)
{
    for (int by_descriptor = 0; by_descriptor < 2; by_descriptor++) {
        char errbuf[PCAP_ERRBUF_SIZE] = "";
        pcap_t *p = pcap_create(captured, errbuf);
        CHECK(p && pcap_set_timeout(p, 100) == 0 && pcap_set_buffer_size(p, 32 << 20) == 0, "%s", errbuf);
        CHECK(pcap_set_promisc(p, 1) == 0, "promiscuous");
        activate(p);
        struct seen seen = {.p = p};
        const unsigned count = 40000;
        struct pollfd fd = {.fd = -1, .events = POLLIN};
        if (by_descriptor) {
            fd.fd = pcap_get_selectable_fd(p);
            CHECK(pcap_setnonblock(p, 1, errbuf) == 0, "%s", errbuf);
        }
        pthread_t thread;
        flood_done = 0;
        pthread_create(&thread, NULL, flood, (void *)(uintptr_t)count);
        double start = now();
        while (seen.count < count && now() - start < 20) {
            if (by_descriptor)
                poll(&fd, 1, 500);
            int got = pcap_dispatch(p, -1, see, (u_char *)&seen);
            CHECK(got >= 0, "%d %s", got, pcap_geterr(p));
        }
        pthread_join(thread, NULL);
        struct pcap_stat stat;
        CHECK(pcap_stats(p, &stat) == 0, "%s", pcap_geterr(p));
        CHECK(seen.count + stat.ps_drop + stat.ps_ifdrop >= count, "%u of %u, %u and %u dropped", seen.count, count, stat.ps_drop, stat.ps_ifdrop);
        CHECK(seen.reordered <= stat.ps_drop + stat.ps_ifdrop, "%u times out of order", seen.reordered);
        pcap_close(p);
    }
}

static pcap_t *breaking;

static void on_alarm(int signal)
{
    (void)signal;
    pcap_breakloop(breaking);
}

static void *break_from_thread(void *nothing)
{
    usleep(100000);
    pcap_breakloop(breaking);
    return nothing;
}

static void case_breakloop(void)
{
    pcap_t *p = breaking = activate(create());
    struct seen seen = {.p = p};
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval soon = {.it_value.tv_usec = 100000};
    setitimer(ITIMER_REAL, &soon, NULL);
    double start = now();
    CHECK(pcap_loop(p, -1, see, (u_char *)&seen) == PCAP_ERROR_BREAK, "by a signal");
    CHECK(now() - start < 5, "took %f s", now() - start);
    pthread_t thread;
    pthread_create(&thread, NULL, break_from_thread, NULL);
    CHECK(pcap_loop(p, -1, see, (u_char *)&seen) == PCAP_ERROR_BREAK, "by a thread");
    pthread_join(thread, NULL);
    pcap_breakloop(p);
    CHECK(pcap_dispatch(p, -1, see, (u_char *)&seen) == PCAP_ERROR_BREAK, "called before");
    /* What was not delivered stays. */
    send_frames(10, 100, 1000, -1);
    usleep(20000);
    seen.break_at = 3;
    int status = pcap_loop(p, -1, see, (u_char *)&seen);
    CHECK(status == PCAP_ERROR_BREAK && seen.count == 3, "%d %u", status, seen.count);
    see_all(p, &seen, 10);
    CHECK(seen.reordered == 0, "order");
    pcap_close(p);
}

static void case_setfilter(void)
{
    pcap_t *p = activate(create());
    struct seen seen = {.p = p};
    send_frames(5, 100, 1000, -1);
    usleep(50000);
    filter(p, "udp port 2000");
    send_frames(6, 100, 2000, -1);
    send_frames(5, 100, 1000, -1);
    see_all(p, &seen, 6);
    CHECK(is_silent(p, &seen), "only what the filter takes");
    struct bpf_insn bad = {.code = 0xffff};
    struct bpf_program bogus = {.bf_len = 1, .bf_insns = &bad};
    if (ours) /* The system's library trusts the program and asks the kernel alone. */
        CHECK(pcap_setfilter(p, &bogus) == PCAP_ERROR && strlen(pcap_geterr(p)) > 0, "a bogus program");
    struct bpf_program never;
    CHECK(pcap_compile(p, &never, "udp port", 1, 0) == PCAP_ERROR && strlen(pcap_geterr(p)) > 0, "bad words");
    pcap_close(p);
}

static void case_snaplen(void)
{
    pcap_t *p = create();
    CHECK(pcap_set_snaplen(p, 60) == 0, "%s", pcap_geterr(p));
    activate(p);
    filter(p, "udp or vlan");
    CHECK(pcap_snapshot(p) == 60, "%d", pcap_snapshot(p));
    struct seen seen = {.p = p};
    send_frames(1, 1000, 1000, -1);
    see_all(p, &seen, 1);
    CHECK(seen.header.caplen == 60 && seen.header.len == 1000, "%u of %u", seen.header.caplen, seen.header.len);
    send_frames(1, 500, 1000, 7);
    see_all(p, &seen, 2);
    CHECK(seen.header.caplen == 60 && seen.header.len == 500, "tagged: %u of %u", seen.header.caplen, seen.header.len);
    pcap_close(p);
}

static void case_stamps(void)
{
    for (int precision = PCAP_TSTAMP_PRECISION_MICRO; precision <= PCAP_TSTAMP_PRECISION_NANO; precision++) {
        pcap_t *p = create();
        int *types, count = pcap_list_tstamp_types(p, &types);
        CHECK(count >= 0, "types");
        pcap_free_tstamp_types(types);
        CHECK(pcap_set_tstamp_type(p, PCAP_TSTAMP_HOST) >= 0, "host");
        CHECK(pcap_set_tstamp_precision(p, precision) == 0, "precision");
        activate(p);
        CHECK(pcap_get_tstamp_precision(p) == precision, "%d", pcap_get_tstamp_precision(p));
        struct seen seen = {.p = p};
        struct timespec before, after;
        clock_gettime(CLOCK_REALTIME, &before);
        send_frames(3, 100, 1000, -1);
        see_all(p, &seen, 3);
        clock_gettime(CLOCK_REALTIME, &after);
        double unit = precision == PCAP_TSTAMP_PRECISION_NANO ? 1e-9 : 1e-6;
        double stamp = seen.header.ts.tv_sec + seen.header.ts.tv_usec * unit;
        CHECK(seen.header.ts.tv_usec * unit < 1.0, "fraction %ld", (long)seen.header.ts.tv_usec);
        CHECK(stamp > before.tv_sec + before.tv_nsec / 1e9 - 0.01 && stamp < after.tv_sec + after.tv_nsec / 1e9 + 0.01, "%f", stamp);
        pcap_close(p);
    }
}

static void case_vlan(void)
{
    pcap_t *p = activate(create());
    struct seen seen = {.p = p};
    unsigned char expected[200];
    send_frames(1, 200, 1000, 5);
    see_all(p, &seen, 1);
    frame(expected, 200, 1000, 5, 0);
    CHECK(seen.header.caplen == 200 && seen.header.len == 200, "%u of %u", seen.header.caplen, seen.header.len);
    CHECK(memcmp(seen.data, expected, 200) == 0, "the tag is in its place");
    filter(p, "vlan 6 and udp port 1000");
    send_frames(2, 200, 1000, 5);
    send_frames(3, 200, 1000, 6);
    send_frames(4, 200, 1000, -1);
    see_all(p, &seen, 4);
    CHECK(is_silent(p, &seen), "vlan 6 only");
    /* What does not speak of tags does not see them. */
    filter(p, "udp port 1000");
    send_frames(2, 200, 1000, 6);
    send_frames(3, 200, 1000, -1);
    see_all(p, &seen, 9);
    pcap_close(p);
}

static void case_direction(void)
{
    static const struct {
        pcap_direction_t direction;
        unsigned in, out;
    } kinds[] = {{PCAP_D_INOUT, 1, 1}, {PCAP_D_IN, 1, 0}, {PCAP_D_OUT, 0, 1}};
    for (int i = 0; i < 3; i++) {
        pcap_t *p = activate(create());
        struct seen seen = {.p = p};
        CHECK(pcap_setdirection(p, kinds[i].direction) == 0, "%s", pcap_geterr(p));
        send_frames(4, 100, 1000, -1);
        int fd = raw_socket(captured, 0);
        send_on(fd, 3, 100, 2000, -1);
        close(fd);
        see_all(p, &seen, 4 * kinds[i].in + 3 * kinds[i].out);
        CHECK(is_silent(p, &seen), "direction %d: one too many", i);
        pcap_close(p);
    }
    pcap_t *p = activate(create());
    struct seen seen = {.p = p};
    filter(p, "udp and outbound");
    send_frames(4, 100, 1000, -1);
    int fd = raw_socket(captured, 0);
    send_on(fd, 3, 100, 2000, -1);
    close(fd);
    see_all(p, &seen, 3);
    filter(p, "udp and inbound");
    send_frames(2, 100, 1000, -1);
    see_all(p, &seen, 5);
    pcap_close(p);
}

static void case_inject(void)
{
    pcap_t *p = activate(create());
    int fd = raw_socket(peer, 1);
    struct timeval limit = {.tv_sec = 1};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    unsigned char out[120], in[2048];
    frame(out, 120, 3000, -1, 42);
    CHECK(pcap_inject(p, out, 120) == 120, "%s", pcap_geterr(p));
    CHECK(recv(fd, in, sizeof in, 0) == 120 && memcmp(in, out, 120) == 0, "pcap_inject");
    frame(out, 120, 3000, -1, 43);
    CHECK(pcap_sendpacket(p, out, 120) == 0, "%s", pcap_geterr(p));
    CHECK(recv(fd, in, sizeof in, 0) == 120 && memcmp(in, out, 120) == 0, "pcap_sendpacket");
    static unsigned char long_frame[20000];
    CHECK(pcap_inject(p, long_frame, sizeof long_frame) == PCAP_ERROR, "too long");
    CHECK(strstr(pcap_geterr(p), "send: Message too long"), "%s", pcap_geterr(p));
    CHECK(pcap_sendpacket(p, long_frame, sizeof long_frame) == PCAP_ERROR, "too long");
    close(fd);
    pcap_close(p);
}

static void *remove_interface(void *nothing)
{
    char command[100];
    snprintf(command, sizeof command, "ip link del %s", captured);
    usleep(200000);
    CHECK(system(command) == 0, "%s", command);
    return nothing;
}

static void case_removal(void)
{
    pcap_t *p = activate(create());
    struct seen seen = {.p = p};
    pthread_t thread;
    pthread_create(&thread, NULL, remove_interface, NULL);
    double start = now();
    CHECK(pcap_loop(p, -1, see, (u_char *)&seen) == PCAP_ERROR, "the loop ends");
    CHECK(now() - start < 5, "took %f s", now() - start);
    CHECK(strcmp(pcap_geterr(p), "The interface disappeared") == 0, "%s", pcap_geterr(p));
    pthread_join(thread, NULL);
    pcap_close(p);
}

static void case_errors(void)
{
    char errbuf[PCAP_ERRBUF_SIZE] = "";
    pcap_t *p = pcap_create("nosuch0", errbuf);
    CHECK(p && pcap_activate(p) == PCAP_ERROR_NO_SUCH_DEVICE, "no such device");
    CHECK(strlen(pcap_geterr(p)) > 0, "a text");
    pcap_close(p);
    CHECK(!pcap_open_live("nosuch0", 100, 0, 10, errbuf), "pcap_open_live");
    CHECK(strstr(errbuf, "nosuch0: No such device exists"), "%s", errbuf);
    p = create();
    struct seen seen = {.p = p};
    struct pcap_stat stat;
    CHECK(pcap_dispatch(p, 1, see, (u_char *)&seen) == PCAP_ERROR_NOT_ACTIVATED, "dispatch before activation");
    CHECK(pcap_datalink(p) == PCAP_ERROR_NOT_ACTIVATED, "datalink before activation");
    CHECK(pcap_stats(p, &stat) == PCAP_ERROR_NOT_ACTIVATED || !ours, "stats before activation");
    activate(p);
    CHECK(pcap_activate(p) == PCAP_ERROR_ACTIVATED, "activated twice");
    CHECK(pcap_set_snaplen(p, 10) == PCAP_ERROR_ACTIVATED && pcap_set_promisc(p, 0) == PCAP_ERROR_ACTIVATED, "too late");
    CHECK(strstr(pcap_geterr(p), "operation on activated capture"), "%s", pcap_geterr(p));
    CHECK(pcap_datalink(p) == DLT_EN10MB && pcap_is_swapped(p) == 0 && !pcap_file(p), "what it is");
    int *types, count = pcap_list_datalinks(p, &types);
    CHECK(count == 2 && types[0] == DLT_EN10MB && types[1] == DLT_DOCSIS, "%d link types", count);
    pcap_free_datalinks(types);
    CHECK(pcap_set_datalink(p, DLT_EN10MB) == 0, "%s", pcap_geterr(p));
    CHECK(pcap_set_datalink(p, DLT_RAW) == PCAP_ERROR && strlen(pcap_geterr(p)) > 0, "a link type it has not");
    CHECK(pcap_setdirection(p, (pcap_direction_t)7) == PCAP_ERROR || !ours, "no direction");
    pcap_dumper_t *dump = pcap_dump_open(p, "/dev/null");
    CHECK(dump, "%s", pcap_geterr(p));
    pcap_dump_close(dump);
    pcap_close(p);
    char command[100];
    snprintf(command, sizeof command, "ip link set %s down", captured);
    CHECK(system(command) == 0, "%s", command);
    p = create();
    CHECK(pcap_activate(p) == PCAP_ERROR_IFACE_NOT_UP, "%s", pcap_geterr(p));
    pcap_close(p);
    if (!ours)
        return;
    CHECK(pcap_dispatch(NULL, 1, see, NULL) == PCAP_ERROR && pcap_stats(NULL, &stat) == PCAP_ERROR, "NULL");
    CHECK(strlen(pcap_geterr(NULL)) > 0 && pcap_activate(NULL) == PCAP_ERROR && !pcap_next(NULL, NULL), "NULL");
    pcap_close(NULL);
    pcap_breakloop(NULL);
    CHECK(!pcap_create("ringtap:lo?colour=red", errbuf) && strstr(errbuf, "no option \"colour\""), "%s", errbuf);
    CHECK(!pcap_create("ringtap:lo?ring=1", errbuf) && strstr(errbuf, "64 to"), "%s", errbuf);
    p = pcap_open_live("ringtap:lo?max_latency=100us&backend=packet", 100, 0, 10, errbuf);
    CHECK(p && pcap_datalink(p) == DLT_EN10MB, "%s", errbuf);
    pcap_close(p);
}

/* Counts add up: what was sent is received, or is among the drops. */
static void case_stats(void)
{
    pcap_t *p = activate(create());
    struct seen seen = {.p = p};
    struct pcap_stat stat;
    send_frames(100, 100, 1000, -1);
    see_all(p, &seen, 100);
    CHECK(pcap_stats(p, &stat) == 0, "%s", pcap_geterr(p));
    CHECK(stat.ps_recv == 100 && stat.ps_drop == 0 && stat.ps_ifdrop == 0, "%u %u %u", stat.ps_recv, stat.ps_drop, stat.ps_ifdrop);
    if (ours) {
        /* More than the ring holds, and nobody reads meanwhile. */
        int fd = raw_socket(peer, 0);
        for (int i = 0; i < 300; i++) {
            send_on(fd, 100, 100, 1000, -1);
            usleep(200);
        }
        close(fd);
        usleep(50000);
        while (pcap_dispatch(p, -1, see, (u_char *)&seen) > 0)
            ;
        CHECK(pcap_stats(p, &stat) == 0, "%s", pcap_geterr(p));
        CHECK(stat.ps_drop > 0, "a full ring is a drop");
        CHECK(stat.ps_recv == seen.count, "received %u, seen %u", stat.ps_recv, seen.count);
        CHECK(stat.ps_recv + stat.ps_drop + stat.ps_ifdrop == 30100, "%u + %u + %u", stat.ps_recv, stat.ps_drop, stat.ps_ifdrop);
    }
    pcap_close(p);
}

/* A callback may call what is not another dispatch. */
static void nested(u_char *user, const struct pcap_pkthdr *header, const u_char *data)
{
    struct seen *seen = (struct seen *)user;
    struct pcap_stat stat;
    see(user, header, data);
    CHECK(pcap_stats(seen->p, &stat) == 0, "%s", pcap_geterr(seen->p));
    CHECK(pcap_inject(seen->p, data, header->caplen) == (int)header->caplen, "%s", pcap_geterr(seen->p));
    if (seen->count == 2)
        filter(seen->p, "udp port 2000");
    if (ours)
        CHECK(pcap_dispatch(seen->p, 1, see, user) == PCAP_ERROR, "no dispatch in a dispatch");
}

static void case_nested(void)
{
    pcap_t *p = activate(create());
    CHECK(pcap_setdirection(p, PCAP_D_IN) == 0, "%s", pcap_geterr(p));
    struct seen seen = {.p = p};
    send_frames(4, 100, 1000, -1);
    send_frames(3, 100, 2000, -1);
    usleep(50000);
    for (int i = 0; i < 20 && seen.count < 5; i++)
        pcap_dispatch(p, -1, nested, (u_char *)&seen);
    CHECK(seen.count == 5, "two before the filter changed, three after: %u", seen.count);
    pcap_close(p);
}

/* p0f and arpwatch: open, fork, change root, drop privileges, then capture. */
static void case_fork(void)
{
    pcap_t *p = activate(create());
    int fd = pcap_get_selectable_fd(p);
    pid_t child = fork();
    if (child == 0) {
        char folder[] = "/tmp/ringtap-pcap-XXXXXX";
        CHECK(mkdtemp(folder) && chroot(folder) == 0 && chdir("/") == 0, "%s", strerror(errno));
        CHECK(setgid(65534) == 0 && setuid(65534) == 0, "%s", strerror(errno));
        struct seen seen = {.p = p};
        struct pcap_stat stat;
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        while (seen.count < 20) {
            CHECK(poll(&wait, 1, 5000) == 1, "nothing in 5 s (%u)", seen.count);
            CHECK(pcap_dispatch(p, -1, see, (u_char *)&seen) >= 0, "%s", pcap_geterr(p));
        }
        filter(p, "udp port 7");
        CHECK(ours || pcap_stats(p, &stat) == 0, "%s", pcap_geterr(p));
        if (ours) {
            CHECK(pcap_stats(p, &stat) == 0 && stat.ps_recv == 20, "%s %u", pcap_geterr(p), stat.ps_recv);
        }
        pcap_close(p);
        _exit(0);
    }
    usleep(200000);
    send_frames(20, 100, 1000, -1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
    pcap_close(p);
}

/* A packet as GRO makes them, larger than any frame of a ring: an interface with a large MTU stands for it. */
static void case_oversize(void)
{
    static const int vlans[] = {-1, 9, -1, 9};
    static unsigned char big[60000];
    pcap_t *p = activate(create());
    int fd = raw_socket(peer, 0);
    for (int i = 0; i < 4; i++) {
        int len = frame(big, 50000, 1000, vlans[i], i);
        memset(big + 100, 0x5a + i, len - 100);
        CHECK(send(fd, big, len, 0) == len, "%s", strerror(errno));
        send_on(fd, 1, 100, 1000, -1);
    }
    struct pcap_pkthdr *header;
    const u_char *data;
    for (int i = 0; i < 4; i++) {
        CHECK(pcap_next_ex(p, &header, &data) == 1, "%s", pcap_geterr(p));
        frame(big, 50000, 1000, vlans[i], i);
        memset(big + 100, 0x5a + i, 50000 - 100);
        CHECK(header->caplen == 50000 && header->len == 50000, "%u of %u", header->caplen, header->len);
        CHECK(memcmp(data, big, 50000) == 0, "whole, with its tag (%d)", i);
        CHECK(pcap_next_ex(p, &header, &data) == 1 && header->caplen == 100, "%u in its place", header->caplen);
    }
    close(fd);
    pcap_close(p);
}

/* Opening and closing leaves nothing behind: descriptors and memory. */
static long resident_kib(void)
{
    long pages = 0, total;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &total, &pages) == 2, "statm");
    fclose(file);
    return pages * 4;
}

static int descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void case_cycles(void)
{
    int cycles = getenv("CYCLES") ? atoi(getenv("CYCLES")) : 60;
    long memory = 0;
    int open_before = 0;
    for (int i = 0; i < cycles; i++) {
        pcap_t *p = activate(create());
        struct seen seen = {.p = p};
        pcap_get_selectable_fd(p);
        send_frames(2, 100, 1000, -1);
        see_all(p, &seen, 2);
        pcap_close(p);
        if (i == cycles / 3) {
            memory = resident_kib();
            open_before = descriptors();
        }
    }
    CHECK(descriptors() == open_before, "%d descriptors, then %d", open_before, descriptors());
    CHECK(resident_kib() - memory < 1024, "%ld KiB, then %ld", memory, resident_kib());
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"counts", case_counts},           {"timeout", case_timeout},
    {"nonblocking", case_nonblocking}, {"select_blocking", case_select_blocking},
    {"storm", case_storm},             {"breakloop", case_breakloop},
    {"setfilter", case_setfilter},     {"snaplen", case_snaplen},
    {"stamps", case_stamps},           {"vlan", case_vlan},
    {"direction", case_direction},     {"inject", case_inject},
    {"removal", case_removal},         {"errors", case_errors},
    {"stats", case_stats},             {"nested", case_nested},
    {"fork", case_fork},               {"oversize", case_oversize},
    {"cycles", case_cycles},
};

int main(int count, char **arguments)
{
    CHECK(count == 4, "usage: behaviour CASE CAPTURED PEER");
    captured = arguments[2];
    peer = arguments[3];
    ours = getenv("RINGTAP_TEST_OURS") != NULL;
    CHECK(ours == (strstr(pcap_lib_version(), "Ringtap") != NULL), "this is %s", pcap_lib_version());
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(cases[i].name, arguments[1]) == 0) {
            cases[i].run();
            return 0;
        }
    }
    CHECK(0, "there is no case %s", arguments[1]);
}
