/*
 * What must stay as it is however long it goes on.
 *
 *     endure dead|offline|create|live CYCLES WHAT      opens and closes a device, or the file of `offline`
 *     endure capture SECONDS DEVICE                    captures, and samples itself sixty times
 *     endure take SECONDS DEVICE                       the same under valgrind, which keeps what was freed: its memory is not judged
 *     endure send SECONDS INTERFACE                    the traffic for it: thin, with a storm now and then
 *
 * Memory and descriptors are judged from a tenth of the way on: a growth is a failure.
 */
#define _GNU_SOURCE
#include <pcap/pcap.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "frames.h"
#include "process.h"

/* What the allocator's own ways may add. */
enum { SLACK_KIB = 512, SAMPLES = 60 };
/* A burst each hundredth of a second; each thirtieth second a storm of larger ones, at which the pacer turns to its timer. */
enum { BURST = 10, STORM = 300, BURSTS_PER_SECOND = 100, STORM_EACH_SECONDS = 30 };

static unsigned long long packets;

static void count_one(u_char *user, const struct pcap_pkthdr *header, const u_char *data)
{
    (void)user, (void)header, (void)data;
    packets++;
}

static void cycle(const char *mode, const char *what)
{
    char errbuf[PCAP_ERRBUF_SIZE] = "";
    pcap_t *p = NULL;
    if (strcmp(mode, "dead") == 0)
        p = pcap_open_dead(DLT_EN10MB, 65535);
    else if (strcmp(mode, "offline") == 0)
        p = pcap_open_offline(what, errbuf);
    else
        p = pcap_create(what, errbuf);
    CHECK(p, "%s: %s", mode, errbuf);
    if (strcmp(mode, "live") == 0)
        CHECK(pcap_activate(p) >= 0, "%s", pcap_geterr(p));
    pcap_close(p);
}

static int cycles(const char *mode, long count, const char *what)
{
    int before = descriptors();
    long memory = resident_kib();
    double started = now();
    for (long done = 0; done < count; done++) {
        cycle(mode, what);
        if (done == count / 10)
            memory = resident_kib();
    }
    double took = now() - started;
    long grown = resident_kib() - memory;
    int left = descriptors() - before;
    printf("%s: %ld cycles in %.1f s (%.0f/s), %ld KiB and %+ld, %d descriptors and %+d\n", mode, count, took, count / took,
        memory, grown, before, left);
    return grown > SLACK_KIB || left != 0;
}

static int capture(long seconds, const char *device, int judged)
{
    char errbuf[PCAP_ERRBUF_SIZE];
    pcap_t *p = pcap_open_live(device, 65535, 1, 100, errbuf);
    CHECK(p, "%s", errbuf);
    printf("capturing\n");
    struct pcap_stat stat;
    double started = now();
    int open_files = descriptors(), bad = 0;
    long memory = 0, most = 0;
    for (int sample = 1; sample <= SAMPLES; sample++) {
        while (now() < started + (double)seconds * sample / SAMPLES)
            CHECK(pcap_dispatch(p, -1, count_one, NULL) >= 0, "%s", pcap_geterr(p));
        CHECK(pcap_stats(p, &stat) == 0, "%s", pcap_geterr(p));
        long resident = resident_kib();
        int left = descriptors() - open_files;
        if (sample <= SAMPLES / 10)
            memory = resident;
        else if (resident > most)
            most = resident;
        bad |= left != 0;
        printf("%.0f s: %llu packets, %u received, %u dropped, %u by the interface, %ld KiB, %d descriptors and %+d\n",
            now() - started, packets, stat.ps_recv, stat.ps_drop, stat.ps_ifdrop, resident, open_files, left);
        fflush(stdout);
    }
    printf("captured %llu of %llu: %ld KiB and %+ld at most\n", packets,
        (unsigned long long)stat.ps_recv + stat.ps_drop + stat.ps_ifdrop, memory, most - memory);
    pcap_close(p);
    return bad || (judged && most - memory > SLACK_KIB) || packets == 0;
}

static int send_for(long seconds, const char *interface)
{
    int fd = raw_socket(interface, 0);
    double started = now();
    unsigned long long sent = 0, refused = 0;
    for (long burst = 0; burst < seconds * BURSTS_PER_SECOND; burst++) {
        long second = burst / BURSTS_PER_SECOND % STORM_EACH_SECONDS;
        int count = second == 1 ? STORM : BURST;
        refused += send_on(fd, count, 100, 1000, -1);
        sent += count;
        double due = started + (double)(burst + 1) / BURSTS_PER_SECOND - now();
        if (due > 0)
            usleep(due * 1e6);
    }
    close(fd);
    printf("sent %llu, refused %llu\n", sent, refused);
    return 0;
}

int main(int count, char **arguments)
{
    CHECK(count == 4, "see the head of endure.c");
    const char *mode = arguments[1], *what = arguments[3];
    long amount = atol(arguments[2]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(mode, "capture") == 0 || strcmp(mode, "take") == 0)
        return capture(amount, what, strcmp(mode, "take") != 0);
    if (strcmp(mode, "send") == 0)
        return send_for(amount, what);
    return cycles(mode, amount, what);
}
