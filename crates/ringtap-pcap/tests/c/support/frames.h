/* Frames of the tests, sent by a raw socket. */
#ifndef FRAMES_H
#define FRAMES_H

/* A raw socket on an interface; it receives only when it is to. */
int raw_socket(const char *interface, int receives);

/* A UDP datagram of `size` bytes on the wire, with or without (-1) a tag; its number is in the payload. */
int frame(unsigned char *buffer, int size, int port, int vlan, unsigned number);

/* `count` of them, numbered from 0; each is sent, however long it takes. Returns how often one was refused and tried again: the
 * device may have counted it as dropped. */
int send_on(int fd, int count, int size, int port, int vlan);

#endif
