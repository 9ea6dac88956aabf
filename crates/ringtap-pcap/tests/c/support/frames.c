#define _GNU_SOURCE
#include "frames.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

int raw_socket(const char *interface, int receives)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(interface)};
    address.sll_protocol = receives ? htons(0x0003) : 0;
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0, "%s", strerror(errno));
    return fd;
}

int frame(unsigned char *buffer, int size, int port, int vlan, unsigned number)
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

int send_on(int fd, int count, int size, int port, int vlan)
{
    unsigned char buffer[2048];
    int refused = 0;
    for (int i = 0; i < count; i++) {
        int len = frame(buffer, size, port, vlan, i);
        for (; send(fd, buffer, len, 0) != len; refused++)
            CHECK(errno == ENOBUFS || errno == EAGAIN, "send: %s", strerror(errno));
    }
    return refused;
}
