/*
 * What must stay as it is however long it goes on: endure dead|offline|create|live CYCLES WHAT, endure capture SECONDS WHAT.
 *
 * WHAT is the device, or the file of `offline`. Memory and descriptors are taken after a tenth of the way and at its end;
 * one line tells them and the rate, and a growth is a failure.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What the allocator's own ways may add. */
enum { SLACK_KIB = 512 };

static unsigned long long packets;

static int descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static long resident_kib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1)
        exit(1);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "endure: %s: %s\n", what, why);
    exit(1);
}

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
    if (!p)
        fail(mode, errbuf);
    if (strcmp(mode, "live") == 0 && pcap_activate(p) < 0)
        fail(mode, pcap_geterr(p));
    pcap_close(p);
}

int main(int count, char **arguments)
{
    if (count != 4)
        fail("usage", "endure dead|offline|create|live CYCLES WHAT, endure capture SECONDS WHAT");
    const char *mode = arguments[1], *what = arguments[3];
    long cycles = atol(arguments[2]), done = 0, memory = 0;
    int before = descriptors(), open_files = 0, is_capture = strcmp(mode, "capture") == 0;
    double started = seconds(), warm = started + cycles / 10.0;
    if (is_capture) {
        char errbuf[PCAP_ERRBUF_SIZE];
        pcap_t *p = pcap_open_live(what, 65535, 1, 100, errbuf);
        if (!p)
            fail(what, errbuf);
        struct pcap_stat stat;
        while (seconds() < started + cycles) {
            if (pcap_dispatch(p, -1, count_one, NULL) < 0)
                fail(what, pcap_geterr(p));
            if (!memory && seconds() >= warm) {
                memory = resident_kib();
                open_files = descriptors();
            }
            done++;
        }
        long grown = resident_kib() - memory;
        int left = descriptors() - open_files;
        if (pcap_stats(p, &stat) != 0)
            fail(what, pcap_geterr(p));
        printf("capture: %.0f s, %llu packets, %u received, %u dropped, %ld KiB and %+ld, %d descriptors and %+d\n",
            seconds() - started, packets, stat.ps_recv, stat.ps_drop, memory, grown, open_files, left);
        pcap_close(p);
        return grown > SLACK_KIB || left != 0 || packets == 0;
    }
    for (; done < cycles; done++) {
        cycle(mode, what);
        if (done == cycles / 10) {
            memory = resident_kib();
            open_files = descriptors();
        }
    }
    double took = seconds() - started;
    long grown = resident_kib() - memory;
    printf("%s: %ld cycles in %.1f s (%.0f/s), %ld KiB and %+ld, %d descriptors and %+d\n", mode, cycles, took, cycles / took,
        memory, grown, open_files, descriptors() - open_files);
    return grown > SLACK_KIB || descriptors() != before;
}
