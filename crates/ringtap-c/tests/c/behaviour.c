/* What docs/c-api.md promises, case by case: behaviour CASE INTERFACE BACKEND. A case that wants packets says "ready" when they may
 * come; tests/net_capture.rs sends numbered ones. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ringtap.h>

#include "check.h"

/* Of the numbered packets: the first of a stamp's bytes in an Ethernet frame with IPv4 and UDP, and its magic number. */
#define STAMP_AT 42
#define NUMBERS 20000
#define PATIENCE_MS 60000

static const char *interface;
static uint32_t backend;
static struct ringtap *capture;

static uint64_t now_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void open_with(uint32_t snaplen)
{
    struct ringtap_options options;
    CHECK(ringtap_options_init(&options, sizeof options) == RINGTAP_OK, "defaults");
    options.interface = interface;
    options.backend = backend;
    options.snaplen = snaplen;
    int code = ringtap_open(&options, &capture);
    CHECK(code == RINGTAP_OK, "%d: %s", code, ringtap_error(NULL));
}

static void close_it(void)
{
    int code = ringtap_close(capture);
    CHECK(code == RINGTAP_OK, "%d", code);
}

static void say(const char *words)
{
    puts(words);
    fflush(stdout);
}

/* The number of a packet; -1: it is none of the generator's. */
static int64_t number_of(const struct ringtap_packet *packet)
{
    uint64_t number = 0;
    if (packet->captured_len < STAMP_AT + 14 || memcmp(packet->data + STAMP_AT, "RTap", 4) != 0)
        return -1;
    for (int i = 0; i < 8; i++)
        number = number << 8 | packet->data[STAMP_AT + 6 + i];
    return (int64_t)number;
}

/* The ledger after the end: all that was offered is explained, and nothing was lost. */
static void check_ledger(uint64_t delivered, uint64_t cut)
{
    struct ringtap_ledger ledger;
    uint64_t sum = delivered;
    int code = ringtap_ledger(capture, &ledger, sizeof ledger);
    CHECK(code == RINGTAP_OK, "%d", code);
    CHECK(ledger.delivered == delivered, "%" PRIu64 ", seen were %" PRIu64, ledger.delivered, delivered);
    CHECK(ledger.cut == cut, "%" PRIu64 ", seen were %" PRIu64, ledger.cut, cut);
    CHECK(ledger.filtered != RINGTAP_UNKNOWN && ledger.offered != RINGTAP_UNKNOWN, "unknown");
    CHECK(ledger.causes > 10 && ledger.causes <= RINGTAP_CAUSES, "%zu", ledger.causes);
    for (size_t i = 0; i < ledger.causes; i++) {
        CHECK(ledger.drops[i].packets == 0, "%s %" PRIu64, ledger.drops[i].cause, ledger.drops[i].packets);
        CHECK(strlen(ledger.drops[i].cause) > 2, "%zu", i);
    }
    sum += ledger.filtered;
    CHECK(ledger.offered == sum && ledger.unaccounted == 0 && ledger.lost == 0, "%" PRIu64 " offered, %" PRId64,
          ledger.offered, ledger.unaccounted);
}

/* Each number comes once and in its order, whole and stamped; what is lent stays as it is. */
static void numbered(void)
{
    uint64_t delivered = 0;
    int64_t expected = 0;
    open_with(0);
    CHECK(ringtap_link_type(capture) == 1, "%d", ringtap_link_type(capture));
    say("ready");
    while (expected < NUMBERS) {
        static unsigned char copies[64][64];
        const struct ringtap_packet *burst;
        int found = ringtap_next_burst(capture, PATIENCE_MS, &burst);
        CHECK(found > 0 && found <= 64, "%d behind %" PRId64 ": %s", found, expected, ringtap_error(capture));
        for (int i = 0; i < found; i++) {
            const struct ringtap_packet *packet = &burst[i];
            uint64_t age_ns = now_ns(CLOCK_REALTIME) - packet->arrival_ns;
            int64_t number = number_of(packet);
            CHECK(packet->captured_len == packet->wire_len && packet->queue == 0, "%u %u", packet->captured_len, packet->wire_len);
            CHECK(age_ns < UINT64_C(60000000000), "%" PRIu64, age_ns);
            CHECK(number == -1 || number == expected, "%" PRId64 " in place of %" PRId64, number, expected);
            expected += number != -1;
            memcpy(copies[i], packet->data, 60);
        }
        delivered += (uint64_t)found;
        if (delivered % 5 == 0)
            usleep(200);
        for (int i = 0; i < found; i++)
            CHECK(memcmp(copies[i], burst[i].data, 60) == 0, "%d changed while it was lent", i);
        if (delivered % 3 == 0)
            CHECK(ringtap_release(capture) == RINGTAP_OK, "%s", ringtap_error(capture));
    }
    CHECK(ringtap_stop(capture) == RINGTAP_OK && ringtap_stop(capture) == RINGTAP_OK, "%s", ringtap_error(capture));
    const struct ringtap_packet *burst;
    int found;
    while ((found = ringtap_next_burst(capture, -1, &burst)) > 0)
        delivered += (uint64_t)found;
    CHECK(found == RINGTAP_END && burst == NULL, "%d", found);
    CHECK(ringtap_next_burst(capture, -1, &burst) == RINGTAP_END, "again");
    check_ledger(delivered, 0);
    close_it();
}

/* What is longer than the snapshot length is cut and counted; looking without waiting finds all, too. */
static void cut(void)
{
    uint64_t delivered = 0, until_ns = now_ns(CLOCK_MONOTONIC) + UINT64_C(60000000000);
    open_with(50);
    say("ready");
    while (delivered < NUMBERS && now_ns(CLOCK_MONOTONIC) < until_ns) {
        const struct ringtap_packet *burst;
        int found = ringtap_next_burst(capture, 0, &burst);
        CHECK(found >= 0, "%d: %s", found, ringtap_error(capture));
        for (int i = 0; i < found; i++)
            CHECK(burst[i].captured_len == 50 && burst[i].wire_len > 50, "%u %u", burst[i].captured_len, burst[i].wire_len);
        delivered += (uint64_t)found;
    }
    const struct ringtap_packet *burst;
    CHECK(ringtap_stop(capture) == RINGTAP_OK, "%s", ringtap_error(capture));
    CHECK(ringtap_next_burst(capture, -1, &burst) == RINGTAP_END, "%s", ringtap_error(capture));
    check_ledger(delivered, delivered);
    close_it();
}

/* Packets that nobody took before the end are still given. */
static void late(void)
{
    uint64_t delivered = 0;
    open_with(0);
    say("ready");
    say("waiting");
    CHECK(getchar() == 'x', "the other side says when all were sent");
    CHECK(ringtap_stop(capture) == RINGTAP_OK, "%s", ringtap_error(capture));
    say("stopped");
    CHECK(getchar() == 'x', "the other side says when more were sent");
    const struct ringtap_packet *burst;
    int found;
    while ((found = ringtap_next_burst(capture, -1, &burst)) > 0)
        for (int i = 0; i < found; i++)
            delivered += number_of(&burst[i]) >= 0;
    CHECK(found == RINGTAP_END && delivered == 500, "%d: %" PRIu64, found, delivered);
    close_it();
}

/* A time-out is kept, and nothing is no error. */
static void timeouts(void)
{
    const struct ringtap_packet *burst = (const void *)1;
    open_with(0);
    uint64_t begun_ns = now_ns(CLOCK_MONOTONIC);
    CHECK(ringtap_next_burst(capture, 0, &burst) == 0 && burst == NULL, "%s", ringtap_error(capture));
    for (int i = 0; i < 3; i++)
        CHECK(ringtap_next_burst(capture, 50, &burst) == 0 && burst == NULL, "%s", ringtap_error(capture));
    uint64_t took_ns = now_ns(CLOCK_MONOTONIC) - begun_ns;
    CHECK(took_ns >= 150000000, "%" PRIu64, took_ns);
    CHECK(ringtap_error(capture)[0] == '\0', "%s", ringtap_error(capture));
    close_it();
}

static void *break_later(void *unused)
{
    (void)unused;
    usleep(100000);
    CHECK(ringtap_break(capture) == RINGTAP_OK, "break");
    return NULL;
}

static void break_in_handler(int number)
{
    (void)number;
    errno = 12345;
    ringtap_break(capture);
    if (errno != 12345)
        _exit(99);
}

/* A wait ends from a thread, from a signal's handler, and before it begins. */
static void breaking(void)
{
    const struct ringtap_packet *burst;
    struct sigaction action = {.sa_handler = break_in_handler, .sa_flags = SA_RESTART};
    pthread_t thread;
    open_with(0);
    CHECK(pthread_create(&thread, NULL, break_later, NULL) == 0, "thread");
    CHECK(ringtap_next_burst(capture, -1, &burst) == RINGTAP_BROKEN && burst == NULL, "%s", ringtap_error(capture));
    pthread_join(thread, NULL);
    sigaction(SIGALRM, &action, NULL);
    ualarm(100000, 0);
    CHECK(ringtap_next_burst(capture, -1, &burst) == RINGTAP_BROKEN, "%s", ringtap_error(capture));
    ringtap_break(capture);
    ringtap_break(capture);
    CHECK(ringtap_next_burst(capture, PATIENCE_MS, &burst) == RINGTAP_BROKEN, "%s", ringtap_error(capture));
    CHECK(ringtap_next_burst(capture, 10, &burst) == 0, "once only: %s", ringtap_error(capture));
    close_it();
}

static void *reads(void *unused)
{
    const struct ringtap_packet *burst;
    int code;
    (void)unused;
    /* The other thread may be at it first. */
    while ((code = ringtap_next_burst(capture, -1, &burst)) == RINGTAP_ERROR_BUSY)
        usleep(1000);
    CHECK(code == RINGTAP_BROKEN, "%d: %s", code, ringtap_error(capture));
    return NULL;
}

/* While one thread reads, others are refused what is the reader's, and may have the ledger. */
static void busy(void)
{
    const struct ringtap_packet *burst = (const void *)1;
    struct ringtap_ledger ledger;
    pthread_t thread;
    int code;
    open_with(0);
    CHECK(pthread_create(&thread, NULL, reads, NULL) == 0, "thread");
    while ((code = ringtap_next_burst(capture, 0, &burst)) == 0)
        usleep(1000);
    CHECK(code == RINGTAP_ERROR_BUSY && burst == NULL, "%d", code);
    CHECK(ringtap_release(capture) == RINGTAP_ERROR_BUSY, "release");
    CHECK(ringtap_stop(capture) == RINGTAP_ERROR_BUSY, "stop");
    CHECK(ringtap_close(capture) == RINGTAP_ERROR_BUSY, "close");
    CHECK(strcmp(ringtap_error(capture), ringtap_strerror(RINGTAP_ERROR_BUSY)) == 0, "%s", ringtap_error(capture));
    CHECK(ringtap_ledger(capture, &ledger, sizeof ledger) == RINGTAP_OK && ledger.delivered == 0, "ledger");
    CHECK(ringtap_break(capture) == RINGTAP_OK, "break");
    pthread_join(thread, NULL);
    close_it();
}

/* The interface is removed while it is waited for: said, and said again. */
static void gone(void)
{
    const struct ringtap_packet *burst;
    char command[100];
    open_with(0);
    snprintf(command, sizeof command, "(sleep 0.2; ip link del %s) &", interface);
    CHECK(system(command) == 0, "%s", command);
    for (int i = 0; i < 2; i++) {
        int code = ringtap_next_burst(capture, PATIENCE_MS, &burst);
        CHECK(code == RINGTAP_ERROR_GONE, "%d: %s", code, ringtap_error(capture));
        CHECK(strstr(ringtap_error(capture), "the interface was removed") != NULL, "%s", ringtap_error(capture));
    }
    close_it();
}

/* The other side looks at the host between the lines. */
static void restored(void)
{
    open_with(0);
    say("open");
    CHECK(getchar() == 'x', "looked at");
    close_it();
    say("closed");
    CHECK(getchar() == 'x', "looked at");
}

/* Ends without having closed. */
static void left(void)
{
    open_with(0);
    say("open");
    CHECK(getchar() == 'x', "looked at");
    exit(0);
}

static void *accounts_of(void *unused)
{
    struct ringtap_ledger ledger;
    (void)unused;
    for (int i = 0; i < 100; i++)
        CHECK(ringtap_ledger(capture, &ledger, sizeof ledger) == RINGTAP_OK, "%s", ringtap_error(capture));
    return NULL;
}

/* While another thread reads the ledger, nobody is refused. */
static void accounts(void)
{
    const struct ringtap_packet *burst;
    pthread_t thread;
    open_with(0);
    CHECK(pthread_create(&thread, NULL, accounts_of, NULL) == 0, "thread");
    for (int i = 0; i < 1000; i++) {
        int code = ringtap_next_burst(capture, 0, &burst);
        CHECK(code == 0, "%d: %s", code, ringtap_error(capture));
        CHECK(ringtap_release(capture) == RINGTAP_OK, "release");
    }
    pthread_join(thread, NULL);
    close_it();
}

/* Opened and closed again and again: no descriptor is left. */
static void cycles(void)
{
    for (int i = 0; i < 20; i++) {
        open_with(0);
        close_it();
    }
    int first = dup(0);
    CHECK(first >= 0 && first < 12, "descriptor %d is the next one", first);
}

static void refused(struct ringtap_options *options, int expected, const char *words)
{
    struct ringtap *opened = (void *)1;
    int code = ringtap_open(options, &opened);
    CHECK(code == expected && opened == NULL, "%d: %s", code, ringtap_error(NULL));
    CHECK(strstr(ringtap_error(NULL), words) != NULL, "%s", ringtap_error(NULL));
}

/* Null pointers, wrong sizes, values out of range, closed handles. */
static void refusals(void)
{
    const struct ringtap_packet *burst;
    struct ringtap_options options;
    struct ringtap_ledger ledger;
    CHECK(ringtap_options_init(NULL, sizeof options) == RINGTAP_ERROR_ARGUMENT, "null");
    CHECK(ringtap_options_init(&options, sizeof options - 8) == RINGTAP_ERROR_ARGUMENT, "size");
    CHECK(ringtap_options_init(&options, sizeof options) == RINGTAP_OK && options.size == sizeof options, "size");
    refused(NULL, RINGTAP_ERROR_ARGUMENT, "no options");
    refused(&options, RINGTAP_ERROR_ARGUMENT, "interface: none is named");
    options.interface = "no0";
    CHECK(ringtap_open(&options, NULL) == RINGTAP_ERROR_ARGUMENT, "no place");
    refused(&options, RINGTAP_ERROR_FAILED, "no0: there is no such interface");
    options.max_latency_ns = 1;
    refused(&options, RINGTAP_ERROR_ARGUMENT, "max_latency_ns: 1 is out of range");
    options.size--;
    refused(&options, RINGTAP_ERROR_ARGUMENT, "header and library differ");

    CHECK(ringtap_next_burst(NULL, 0, &burst) == RINGTAP_ERROR_ARGUMENT && burst == NULL, "null");
    CHECK(ringtap_release(NULL) == RINGTAP_ERROR_ARGUMENT, "null");
    CHECK(ringtap_break(NULL) == RINGTAP_ERROR_ARGUMENT, "null");
    CHECK(ringtap_stop(NULL) == RINGTAP_ERROR_ARGUMENT, "null");
    CHECK(ringtap_ledger(NULL, &ledger, sizeof ledger) == RINGTAP_ERROR_ARGUMENT, "null");
    CHECK(ringtap_warning(NULL, 0) == NULL && ringtap_backend(NULL) == NULL, "null");
    CHECK(ringtap_link_type(NULL) == RINGTAP_ERROR_ARGUMENT, "null");
    CHECK(ringtap_close(NULL) == RINGTAP_ERROR_ARGUMENT, "null");
    static uint64_t other[512];
    CHECK(ringtap_stop((struct ringtap *)other) == RINGTAP_ERROR_ARGUMENT, "no handle");
    CHECK(strcmp(ringtap_error((struct ringtap *)other), "the handle is not open") == 0, "no handle");
    CHECK(strlen(ringtap_strerror(-100)) > 0 && strlen(ringtap_strerror(5)) > 0, "words");

    open_with(0);
    CHECK(ringtap_next_burst(capture, 0, NULL) == RINGTAP_ERROR_ARGUMENT, "no place");
    CHECK(strstr(ringtap_error(capture), "no place for the packets") != NULL, "%s", ringtap_error(capture));
    CHECK(ringtap_ledger(capture, &ledger, 8) == RINGTAP_ERROR_ARGUMENT, "size");
    CHECK(ringtap_ledger(capture, NULL, sizeof ledger) == RINGTAP_ERROR_ARGUMENT, "no place");
    CHECK(ringtap_warning(capture, 1000) == NULL, "behind the last one");
    close_it();
}

/* Run as a user without privileges. */
static void unprivileged(void)
{
    struct ringtap_options options;
    CHECK(setgid(65534) == 0 && setuid(65534) == 0, "setuid");
    ringtap_options_init(&options, sizeof options);
    options.interface = interface;
    options.backend = backend;
    int code = ringtap_open(&options, &capture);
    CHECK(code == RINGTAP_ERROR_PERMISSION, "%d: %s", code, ringtap_error(NULL));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"numbered", numbered}, {"cut", cut},     {"late", late},         {"timeouts", timeouts},
        {"breaking", breaking}, {"busy", busy},   {"gone", gone},         {"restored", restored},
        {"left", left},         {"accounts", accounts}, {"cycles", cycles},     {"refusals", refusals}, {"unprivileged", unprivileged},
    };
    CHECK(argc == 4, "behaviour CASE INTERFACE BACKEND");
    interface = argv[2];
    backend = strcmp(argv[3], "xdp") == 0 ? RINGTAP_BACKEND_XDP : RINGTAP_BACKEND_PACKET;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    CHECK(0, "there is no case %s", argv[1]);
    return 1;
}
