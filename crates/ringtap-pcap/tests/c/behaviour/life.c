/* A handle's life: its counters, calls from the callback, fork, and what is left when it is closed. */
#define _GNU_SOURCE
#include "cases.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture.h"

/* Counts add up: what was sent is received, or is among the drops. */
void case_stats(void)
{
    pcap_t *p = activate(create());
    struct seen seen = {.p = p};
    struct pcap_stat stat;
    send_frames(100, 100, 1000, -1);
    see_all(p, &seen, 100);
    CHECK(pcap_stats(p, &stat) == 0, "%s", pcap_geterr(p));
    CHECK(stat.ps_recv == 100 && stat.ps_drop == 0 && stat.ps_ifdrop == 0, "%u %u %u", stat.ps_recv, stat.ps_drop, stat.ps_ifdrop);
    if (ours) {
        /* More than the ring holds, or the 64 MiB of a plain socket's buffer, and nobody reads meanwhile. */
        int fd = raw_socket(peer, 0);
        for (int i = 0; i < 2000; i++) {
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
        CHECK(stat.ps_recv + stat.ps_drop + stat.ps_ifdrop == 200100, "%u + %u + %u", stat.ps_recv, stat.ps_drop, stat.ps_ifdrop);
    }
    pcap_close(p);
}

/* A callback may call what it likes; another dispatch goes on with the next packet. */
static void nested(u_char *user, const struct pcap_pkthdr *header, const u_char *data)
{
    struct seen *seen = (struct seen *)user;
    struct pcap_stat stat;
    see(user, header, data);
    CHECK(pcap_stats(seen->p, &stat) == 0, "%s", pcap_geterr(seen->p));
    CHECK(pcap_inject(seen->p, data, header->caplen) == (int)header->caplen, "%s", pcap_geterr(seen->p));
    if (seen->count == 2)
        filter(seen->p, "udp port 2000");
    if (ours && seen->count == 4)
        CHECK(pcap_dispatch(seen->p, 1, see, user) == 1 && seen->count == 5, "%u", seen->count);
}

void case_nested(void)
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
    CHECK(seen.last_number == 2, "each of them once, in order: %u", seen.last_number);
    pcap_close(p);
}

/* p0f and arpwatch: open, fork, change root, drop privileges, then capture. */
void case_fork(void)
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

void case_cycles(void)
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

static long napi_setting(const char *name)
{
    char path[200];
    long value = -1;
    snprintf(path, sizeof path, "/sys/class/net/%s/%s", captured, name);
    FILE *file = fopen(path, "r");
    CHECK(file && fscanf(file, "%ld", &value) == 1, "%s", path);
    fclose(file);
    return value;
}

/* AF_XDP's NAPI is paced without being asked, and as before when the client has ended, however it did. */
void case_napi_pause(void)
{
    enum { CLOSES = 1, DROPS_PRIVILEGES = 2, FORKS = 4 };
    long flush = napi_setting("gro_flush_timeout"), defer = napi_setting("napi_defer_hard_irqs");
    const char *backend = getenv("RINGTAP_BACKEND");
    int paced = backend && strcmp(backend, "xdp") == 0;
    for (int ending = 0; ending < 8; ending++) {
        pid_t child = fork();
        if (child == 0) {
            char errbuf[PCAP_ERRBUF_SIZE] = "";
            pcap_t *p = pcap_create(captured, errbuf);
            CHECK(p && pcap_set_timeout(p, 100) == 0, "%s", errbuf);
            activate(p);
            CHECK((napi_setting("gro_flush_timeout") != flush) == paced, "%ld", napi_setting("gro_flush_timeout"));
            CHECK((napi_setting("napi_defer_hard_irqs") != defer) == paced, "%ld", napi_setting("napi_defer_hard_irqs"));
            if (ending & DROPS_PRIVILEGES)
                CHECK(chroot("/tmp") == 0 && setgid(65534) == 0 && setuid(65534) == 0, "%s", strerror(errno));
            if (ending & FORKS) {
                /* A daemon: the first process goes at once, the second one captures and closes, or not. */
                if (fork() == 0) {
                    usleep(100000);
                    if (ending & CLOSES)
                        pcap_close(p);
                    exit(0);
                }
                exit(0);
            }
            if (ending & CLOSES)
                pcap_close(p);
            exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
        if (ending & FORKS)
            usleep(400000);
        CHECK(napi_setting("gro_flush_timeout") == flush, "ending %d: %ld", ending, napi_setting("gro_flush_timeout"));
        CHECK(napi_setting("napi_defer_hard_irqs") == defer, "ending %d: %ld", ending, napi_setting("napi_defer_hard_irqs"));
    }
}
