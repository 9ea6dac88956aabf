/* Counts the packets of an interface for a while, and says where each of them went.
 *
 *     cc count.c $(pkg-config --cflags --libs ringtap) -o count
 *     ./count INTERFACE [SECONDS [BACKEND]]        BACKEND: auto, xdp or packet
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ringtap.h>

static struct ringtap *capture;

/* Ctrl-C: ends the wait for packets. */
static void on_signal(int number)
{
    (void)number;
    ringtap_break(capture);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Unknown is told as unknown: it is not 0. */
static void print_count(const char *name, uint64_t count)
{
    if (count == RINGTAP_UNKNOWN)
        printf("%s unknown\n", name);
    else
        printf("%s %" PRIu64 "\n", name, count);
}

static void print_ledger(const struct ringtap_ledger *ledger)
{
    print_count("offered", ledger->offered);
    print_count("delivered", ledger->delivered);
    print_count("filtered", ledger->filtered);
    for (size_t i = 0; i < ledger->causes; i++)
        if (ledger->drops[i].packets != 0)
            print_count(ledger->drops[i].cause, ledger->drops[i].packets);
    if (ledger->unaccounted == RINGTAP_UNACCOUNTED_UNKNOWN)
        puts("unaccounted unknown");
    else
        printf("unaccounted %" PRId64 "\n", ledger->unaccounted);
}

static int choose(const char *name, uint32_t *backend)
{
    static const char *const names[] = {"auto", "xdp", "packet"};
    static const uint32_t backends[] = {RINGTAP_BACKEND_AUTO, RINGTAP_BACKEND_XDP, RINGTAP_BACKEND_PACKET};
    for (size_t i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *backend = backends[i];
            return 1;
        }
    return 0;
}

/* Counts until the time is over, Ctrl-C, or the interface's end, and then what is still in the rings. */
static int count(double seconds, uint64_t *packets, uint64_t *bytes)
{
    double end = now() + seconds;
    int stopped = 0;
    for (;;) {
        const struct ringtap_packet *burst;
        double left = end - now();
        int found = ringtap_next_burst(capture, left > 0 ? (int)(left * 1000) + 1 : 0, &burst);
        for (int i = 0; i < found; i++) {
            (*packets)++;
            *bytes += burst[i].wire_len;
        }
        if (found == RINGTAP_END)
            return RINGTAP_OK;
        if (found < 0 && found != RINGTAP_BROKEN)
            return found;
        if (!stopped && (found == RINGTAP_BROKEN || now() >= end)) {
            ringtap_stop(capture);
            stopped = 1;
        }
    }
}

int main(int argc, char **argv)
{
    struct ringtap_options options;
    struct ringtap_ledger ledger;
    struct sigaction action = {.sa_handler = on_signal};
    uint64_t packets = 0, bytes = 0;
    char *rest = "";
    const char *warning;
    double seconds;
    int code;

    ringtap_options_init(&options, sizeof options);
    seconds = argc > 2 ? strtod(argv[2], &rest) : 10;
    if (argc < 2 || argc > 4 || *rest != '\0' || !(seconds >= 0 && seconds < 1e6) ||
        (argc > 3 && !choose(argv[3], &options.backend))) {
        fprintf(stderr, "usage: count INTERFACE [SECONDS [auto|xdp|packet]]\n");
        return 2;
    }
    options.interface = argv[1];
    options.max_latency_ns = 1000000;
    if (ringtap_open(&options, &capture) != RINGTAP_OK) {
        fprintf(stderr, "count: %s\n", ringtap_error(NULL));
        return 1;
    }
    for (size_t i = 0; (warning = ringtap_warning(capture, i)) != NULL; i++)
        fprintf(stderr, "count: warning: %s\n", warning);
    sigaction(SIGINT, &action, NULL);
    fprintf(stderr, "count: counting by %s\n", ringtap_backend(capture));

    code = count(seconds, &packets, &bytes);
    if (code != RINGTAP_OK)
        fprintf(stderr, "count: %s\n", ringtap_error(capture));
    ringtap_ledger(capture, &ledger, sizeof ledger);
    printf("%" PRIu64 " packets, %" PRIu64 " bytes\n", packets, bytes);
    print_ledger(&ledger);
    signal(SIGINT, SIG_DFL);
    ringtap_close(capture);
    return code == RINGTAP_OK ? 0 : 1;
}
