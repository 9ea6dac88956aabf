/* When a call returns: counts, timeouts, descriptors, pcap_breakloop. */
#define _GNU_SOURCE
#include "cases.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "capture.h"

void case_counts(void)
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

void case_timeout(void)
{
    pcap_t *p = activate(create());
    struct seen seen = {.p = p};
    double start = now();
    CHECK(pcap_dispatch(p, -1, see, (u_char *)&seen) == 0, "nothing came");
    double passed = now() - start;
    CHECK(passed > 0.15 && passed < 10.0, "a timeout of 200 ms took %f s", passed);
    struct pcap_pkthdr *header;
    const u_char *data;
    CHECK(pcap_next_ex(p, &header, &data) == 0, "timeout of pcap_next_ex");
    pcap_close(p);
}

/* A packet waits neither for the timeout in immediate mode, nor for longer than it otherwise. */
void case_immediate(void)
{
    for (int immediate = 1; immediate >= 0; immediate--) {
        char errbuf[PCAP_ERRBUF_SIZE] = "";
        pcap_t *p = pcap_create(captured, errbuf);
        CHECK(p && pcap_set_promisc(p, 1) == 0 && pcap_set_immediate_mode(p, immediate) == 0, "%s", errbuf);
        CHECK(pcap_set_timeout(p, immediate ? 5000 : 100) == 0, "timeout");
        struct seen seen = {.p = activate(p)};
        for (unsigned i = 1; i <= 3; i++) {
            double start = now();
            send_frames(1, 100, 1000, -1);
            while (seen.count < i && now() - start < 4)
                CHECK(pcap_dispatch(p, -1, see, (u_char *)&seen) >= 0, "%s", pcap_geterr(p));
            CHECK(seen.count == i, "%u of %u: it waits for the timeout of 5 s", seen.count, i);
        }
        pcap_close(p);
    }
}

void case_nonblocking(void)
{
    char errbuf[PCAP_ERRBUF_SIZE] = "";
    pcap_t *p = create();
    CHECK(pcap_setnonblock(p, 1, errbuf) == 0, "an option before activation");
    CHECK(pcap_set_timeout(p, 30000) == 0, "timeout");
    CHECK(pcap_getnonblock(activate(p), errbuf) == 1, "and kept by it");
    struct seen seen = {.p = p};
    double start = now();
    CHECK(pcap_dispatch(p, -1, see, (u_char *)&seen) == 0 && now() - start < 20, "it waits for the timeout of 30 s");
    pcap_close(p);
    seen.p = p = activate(create());
    CHECK(pcap_getnonblock(p, errbuf) == 0, "blocking by default");
    CHECK(pcap_setnonblock(p, 1, errbuf) == 0 && pcap_getnonblock(p, errbuf) == 1, "%s", errbuf);
    CHECK(pcap_dispatch(p, -1, see, (u_char *)&seen) == 0, "nothing came");
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
void case_select_blocking(void)
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
void case_storm(void)
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

/* In the midst of a storm, when the wait is one for the timer. */
static void break_in_a_storm(void)
{
    char errbuf[PCAP_ERRBUF_SIZE] = "";
    pcap_t *p = breaking = pcap_create(captured, errbuf);
    CHECK(p && pcap_set_promisc(p, 1) == 0 && pcap_set_timeout(p, 100) == 0, "%s", errbuf);
    struct seen seen = {.p = activate(p)};
    for (int by_signal = 0; by_signal < 2; by_signal++) {
        pthread_t storm, thread;
        pthread_create(&storm, NULL, flood, (void *)(uintptr_t)40000);
        struct itimerval soon = {.it_value.tv_usec = 100000};
        if (by_signal)
            setitimer(ITIMER_REAL, &soon, NULL);
        else
            pthread_create(&thread, NULL, break_from_thread, NULL);
        double start = now();
        int status = pcap_loop(p, -1, see, (u_char *)&seen);
        CHECK(status == PCAP_ERROR_BREAK && now() - start < 5, "%d after %f s", status, now() - start);
        CHECK(seen.count > 0, "nothing came");
        if (!by_signal)
            pthread_join(thread, NULL);
        pthread_join(storm, NULL);
    }
    pcap_close(p);
}

void case_breakloop(void)
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
    break_in_a_storm();
}
