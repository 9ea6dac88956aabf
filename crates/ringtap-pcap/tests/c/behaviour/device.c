/* The interface: sending on it, its removal, and what is refused with which words. */
#define _GNU_SOURCE
#include "cases.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture.h"

void case_inject(void)
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

void case_removal(void)
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

/* A client that waits by its descriptor is told as well. */
void case_removal_by_descriptor(void)
{
    char errbuf[PCAP_ERRBUF_SIZE];
    pcap_t *p = activate(create());
    struct seen seen = {.p = p};
    CHECK(pcap_setnonblock(p, 1, errbuf) == 0, "%s", errbuf);
    struct pollfd fd = {.fd = pcap_get_selectable_fd(p), .events = POLLIN};
    pthread_t thread;
    pthread_create(&thread, NULL, remove_interface, NULL);
    int got = 0;
    for (double start = now(); got >= 0 && now() - start < 5;) {
        poll(&fd, 1, 1000);
        got = pcap_dispatch(p, -1, see, (u_char *)&seen);
    }
    CHECK(got == PCAP_ERROR, "%d", got);
    CHECK(strcmp(pcap_geterr(p), "The interface disappeared") == 0, "%s", pcap_geterr(p));
    pthread_join(thread, NULL);
    pcap_close(p);
}

static void set_link(const char *state)
{
    char command[100];
    snprintf(command, sizeof command, "ip link set %s %s", captured, state);
    CHECK(system(command) == 0, "%s", command);
}

static void *down_and_up(void *nothing)
{
    usleep(200000);
    set_link("down");
    usleep(200000);
    set_link("up");
    usleep(200000);
    send_frames(5, 100, 1000, -1);
    return nothing;
}

/* An interface that was down for a moment goes on being captured. */
void case_down_and_up(void)
{
    pcap_t *p = activate(create());
    struct seen seen = {.p = p};
    pthread_t thread;
    pthread_create(&thread, NULL, down_and_up, NULL);
    for (double start = now(); seen.count < 5 && now() - start < 10;)
        CHECK(pcap_dispatch(p, -1, see, (u_char *)&seen) >= 0, "%s", pcap_geterr(p));
    CHECK(seen.count == 5, "%u", seen.count);
    pthread_join(thread, NULL);
    pcap_close(p);
}

/* The list of devices is as always, and what it names can be opened. */
void case_devices(void)
{
    char errbuf[PCAP_ERRBUF_SIZE] = "";
    pcap_if_t *all, *device;
    CHECK(pcap_findalldevs(&all, errbuf) == 0, "%s", errbuf);
    int found = 0;
    for (device = all; device; device = device->next) {
        found |= strcmp(device->name, captured) == 0 ? 1 : 0;
        found |= strcmp(device->name, "any") == 0 ? 2 : 0;
        found |= strcmp(device->name, "lo") == 0 && device->flags & PCAP_IF_LOOPBACK ? 4 : 0;
        CHECK(!strstr(device->name, "ringtap"), "%s", device->name);
    }
    CHECK(found == 7, "%d", found);
    pcap_freealldevs(all);
    pcap_t *p = pcap_open_live("any", 100, 0, 100, errbuf);
    CHECK(p && pcap_datalink(p) == DLT_LINUX_SLL, "%s", errbuf);
    pcap_close(p);
}

/* Who may not capture is told so, by the code and in words. */
void case_privilege(void)
{
    pid_t child = fork();
    if (child == 0) {
        char errbuf[PCAP_ERRBUF_SIZE] = "";
        CHECK(setgid(65534) == 0 && setuid(65534) == 0, "setuid");
        pcap_t *p = create();
        CHECK(pcap_activate(p) == PCAP_ERROR_PERM_DENIED, "%s", pcap_geterr(p));
        CHECK(strlen(pcap_geterr(p)) > 0, "a text");
        pcap_close(p);
        CHECK(!pcap_open_live(captured, 100, 1, 10, errbuf) && strstr(errbuf, captured), "%s", errbuf);
        CHECK(strstr(errbuf, "ermission") || strstr(errbuf, "not permitted"), "%s", errbuf);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
}

void case_errors(void)
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
    set_link("down");
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
