/* A call that is interrupted: by cancellation of its thread, by a signal, by another thread, by a jump out of the callback. */
#define _GNU_SOURCE
#include "cases.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "capture.h"

static int cleaned;

static void clean(void *argument)
{
    (void)argument;
    cleaned++;
}

static void see_and_sleep(u_char *user, const struct pcap_pkthdr *header, const u_char *data)
{
    see(user, header, data);
    usleep(10000000);
}

enum { IN_LOOP, IN_DISPATCH, IN_NEXT, IN_CALLBACK, WAYS };

struct reader {
    struct seen seen;
    int way;
};

static void *reading(void *argument)
{
    struct reader *reader = argument;
    struct pcap_pkthdr *header;
    const u_char *data;
    pthread_cleanup_push(clean, NULL);
    for (;;) {
        switch (reader->way) {
        case IN_LOOP:
            pcap_loop(reader->seen.p, -1, see, (u_char *)&reader->seen);
            break;
        case IN_DISPATCH:
            pcap_dispatch(reader->seen.p, -1, see, (u_char *)&reader->seen);
            break;
        case IN_NEXT:
            reader->seen.count += pcap_next_ex(reader->seen.p, &header, &data) == 1;
            break;
        default:
            pcap_loop(reader->seen.p, -1, see_and_sleep, (u_char *)&reader->seen);
        }
    }
    pthread_cleanup_pop(0);
    return NULL;
}

/* iftop: a thread in pcap_loop is cancelled and joined, and the handle is closed, or used again. */
void case_cancel(void)
{
    for (int way = 0; way < WAYS; way++) {
        pcap_t *p = activate(create());
        struct reader reader = {.seen = {.p = p}, .way = way};
        pthread_t thread;
        void *result;
        int before = cleaned;
        CHECK(pthread_create(&thread, NULL, reading, &reader) == 0, "thread");
        usleep(50000);
        send_frames(2, 100, 1000, -1);
        unsigned wanted = way == IN_CALLBACK ? 1 : 2;
        for (int i = 0; i < 1000 && *(volatile unsigned *)&reader.seen.count < wanted; i++)
            usleep(5000);
        double start = now();
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0, "way %d", way);
        CHECK(result == PTHREAD_CANCELED && cleaned == before + 1, "way %d: %p, %d", way, result, cleaned);
        CHECK(now() - start < 5, "way %d: %f s", way, now() - start);
        CHECK(reader.seen.count == wanted, "way %d: %u", way, reader.seen.count);
        if (ours || way != IN_CALLBACK) {
            /* What was shown is not shown again, what was not is not lost. */
            struct seen seen = {.p = p};
            struct pcap_stat stat;
            send_frames(3, 100, 1000, -1);
            see_all(p, &seen, 5 - wanted);
            CHECK(pcap_stats(p, &stat) == 0 && stat.ps_recv == 5, "way %d: %u", way, stat.ps_recv);
        }
        pcap_close(p);
    }
}

static pcap_t *asked;
static volatile sig_atomic_t answers, worst;

static void ask(int number)
{
    struct pcap_stat stat;
    (void)number;
    if (pcap_stats(asked, &stat) != 0)
        worst = 1;
    answers++;
}

static void *ask_and_end(void *argument)
{
    (void)argument;
    struct pcap_stat stat = {0};
    /* While the reader sleeps, and while it works. */
    usleep(100000);
    for (int i = 0; i < 100; i++) {
        CHECK(pcap_stats(asked, &stat) == 0, "%s", pcap_geterr(asked));
        usleep(500);
    }
    send_frames(50, 100, 1000, -1);
    for (int i = 0; i < 1000 && stat.ps_recv < 50; i++) {
        CHECK(pcap_stats(asked, &stat) == 0, "%s", pcap_geterr(asked));
        usleep(1000);
    }
    CHECK(stat.ps_recv == 50 && stat.ps_drop == 0, "%u, %u lost", stat.ps_recv, stat.ps_drop);
    int fd = raw_socket(peer, 0);
    for (int i = 0; i < 200; i++) {
        send_on(fd, 100, 100, 1000, -1);
        CHECK(pcap_stats(asked, &stat) == 0, "%s", pcap_geterr(asked));
    }
    close(fd);
    usleep(300000);
    CHECK(pcap_stats(asked, &stat) == 0, "%s", pcap_geterr(asked));
    CHECK(stat.ps_recv + stat.ps_drop + stat.ps_ifdrop == 20050, "%u + %u + %u", stat.ps_recv, stat.ps_drop, stat.ps_ifdrop);
    pcap_breakloop(asked);
    return NULL;
}

/* tcpdump's SIGUSR1, and gopacket: pcap_stats from a handler and from another thread while pcap_loop sleeps and works. */
void case_asked_meanwhile(void)
{
    asked = activate(create());
    struct seen seen = {.p = asked};
    struct sigaction action = {.sa_handler = ask};
    sigaction(SIGALRM, &action, NULL);
    /* No multiple of anything: it meets the call in every place. */
    struct timeval every = {.tv_usec = 1013};
    struct itimerval timer = {.it_interval = every, .it_value = every};
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_t thread;
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    CHECK(pthread_create(&thread, NULL, ask_and_end, NULL) == 0, "thread");
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    int status = pcap_loop(asked, -1, see, (u_char *)&seen);
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, NULL);
    CHECK(status == PCAP_ERROR_BREAK, "%d %s", status, pcap_geterr(asked));
    pthread_join(thread, NULL);
    CHECK(answers > 10 && !worst, "%d answers", (int)answers);
    pcap_close(asked);
}

static jmp_buf out;

static void see_and_jump(u_char *user, const struct pcap_pkthdr *header, const u_char *data)
{
    struct seen *seen = (struct seen *)user;
    see(user, header, data);
    if (seen->count % 3 == 0)
        longjmp(out, 1);
}

/* A callback that never returns: the next call goes on behind its packet. */
void case_jump(void)
{
    pcap_t *p = activate(create());
    static struct seen seen;
    struct pcap_stat stat;
    seen.p = p;
    send_frames(20, 100, 1000, -1);
    usleep(20000);
    static volatile int jumps;
    if (setjmp(out))
        jumps++;
    while (seen.count < 20)
        CHECK(pcap_loop(p, 20 - (int)seen.count, see_and_jump, (u_char *)&seen) >= 0, "%s", pcap_geterr(p));
    CHECK(seen.count == 20 && seen.reordered == 0 && jumps == 6, "%u, %u, %d jumps", seen.count, seen.reordered, jumps);
    CHECK(pcap_stats(p, &stat) == 0 && stat.ps_recv == 20, "%u", stat.ps_recv);
    filter(p, "udp");
    /* More than the ring holds: frames that a jump left behind came back to it. */
    static volatile int round;
    for (; round < 50; round++) {
        static struct seen more;
        more = (struct seen){.p = p};
        seen.count = 0;
        send_frames(100, 100, 1000, -1);
        if (setjmp(out) == 0)
            pcap_loop(p, -1, see_and_jump, (u_char *)&seen);
        see_all(p, &more, 97);
    }
    /* Closed in the middle. */
    send_frames(6, 100, 1000, -1);
    seen.count = 0;
    if (setjmp(out) == 0)
        pcap_loop(p, -1, see_and_jump, (u_char *)&seen);
    pcap_close(p);
}

/* Longer than the kernel has memory for: user space decides, and the counts say so. */
void case_refused_filter(void)
{
    static char text[200000];
    size_t at = (size_t)sprintf(text, "udp and (dst port 1000");
    for (int port = 1; port <= 200; port++)
        at += (size_t)sprintf(text + at, " or dst port %d", 20000 + 3 * port);
    strcpy(text + at, ")");
    pcap_t *p = activate(create());
    struct seen seen = {.p = p};
    struct pcap_stat stat;
    filter(p, text);
    send_frames(10, 100, 2000, -1);
    send_frames(10, 100, 1000, -1);
    send_frames(10, 100, 2000, -1);
    send_frames(10, 100, 20003, -1);
    see_all(p, &seen, 20);
    CHECK(is_silent(p, &seen) && seen.count == 20, "%u", seen.count);
    CHECK(pcap_stats(p, &stat) == 0, "%s", pcap_geterr(p));
    if (ours)
        CHECK(stat.ps_recv == 20 && stat.ps_drop == 0, "%u, %u lost", stat.ps_recv, stat.ps_drop);
    pcap_close(p);
}
