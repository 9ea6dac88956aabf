/*
 * A libpcap of our own for tests, of one kind of device: a Unix datagram socket, named by its path; each datagram is a packet.
 *
 * As libpcap's module for netmap, it takes no notice of non-blocking mode: pcap_dispatch returns only with a packet.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

typedef struct pcap {
    char path[100];
    int fd;
    unsigned received;
} pcap_t;

struct packet_header {
    struct timeval time;
    unsigned caplen, len;
};

struct statistics {
    unsigned received, dropped, dropped_by_interface;
};

typedef void (*callback)(unsigned char *, const struct packet_header *, const unsigned char *);

pcap_t *pcap_create(const char *device, char *errbuf)
{
    pcap_t *p = calloc(1, sizeof *p);
    (void)errbuf;
    snprintf(p->path, sizeof p->path, "%s", device);
    return p;
}

int pcap_activate(pcap_t *p)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, p->path, sizeof p->path);
    p->fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    return p->fd >= 0 && bind(p->fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : -1;
}

int pcap_dispatch(pcap_t *p, int count, callback handle, unsigned char *user)
{
    unsigned char data[2048];
    int done = 0;
    while (done == 0 || done < count) {
        struct pollfd wait = {.fd = p->fd, .events = POLLIN};
        if (poll(&wait, 1, done ? 0 : -1) < 1) {
            if (done)
                break;
            continue;
        }
        ssize_t len = recv(p->fd, data, sizeof data, 0);
        struct packet_header header = {.caplen = (unsigned)len, .len = (unsigned)len};
        gettimeofday(&header.time, NULL);
        p->received++;
        handle(user, &header, data);
        done++;
    }
    return done;
}

int pcap_stats(pcap_t *p, struct statistics *statistics)
{
    *statistics = (struct statistics){.received = p->received};
    return 0;
}

void pcap_close(pcap_t *p)
{
    close(p->fd);
    free(p);
}

int pcap_datalink(pcap_t *p)
{
    (void)p;
    return 1;
}

int pcap_findalldevs(void **list, char *errbuf)
{
    (void)errbuf;
    *list = NULL;
    return 0;
}

void pcap_freealldevs(void *list)
{
    (void)list;
}

const struct timeval *pcap_get_required_select_timeout(pcap_t *p)
{
    (void)p;
    return NULL;
}

int pcap_get_selectable_fd(pcap_t *p)
{
    return p->fd;
}

int pcap_get_tstamp_precision(pcap_t *p)
{
    (void)p;
    return 0;
}

char *pcap_geterr(pcap_t *p)
{
    (void)p;
    return "the test's libpcap failed";
}

const char *pcap_lib_version(void)
{
    return "libpcap version 1.0 of a test";
}

const char *pcap_statustostr(int status)
{
    (void)status;
    return "status";
}

#define OPTION(name)              \
    int name(pcap_t *p, int value) \
    {                              \
        (void)p, (void)value;      \
        return 0;                  \
    }

OPTION(pcap_set_buffer_size)
OPTION(pcap_set_immediate_mode)
OPTION(pcap_set_promisc)
OPTION(pcap_set_snaplen)
OPTION(pcap_set_timeout)
OPTION(pcap_set_tstamp_precision)
OPTION(pcap_setdirection)

int pcap_setnonblock(pcap_t *p, int on, char *errbuf)
{
    (void)p, (void)on, (void)errbuf;
    return 0;
}
