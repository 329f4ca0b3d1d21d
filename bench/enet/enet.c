/* Measures ENet: `enet serve ADDRESS:PORT`, then `enet run TEST ADDRESS:PORT [--size BYTES] [--seconds S]`.
 *
 * TEST is `message`, one reliable packet for each message, or `ping`, one there and back; both ends spin while a client is
 * there, and the server sleeps without one. The client prints one line of JSON. Messages go by channel 0; on channel 1 the
 * client says that it is done, and the server what it counted.
 */
#include <enet/enet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* Messages that are sent and not acknowledged, at most: ENet itself would queue without end. */
#define OUTSTANDING_MAX 4096
/* Round trips that are kept. */
#define ROUND_TRIPS_MAX 4000000

static int outstanding;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_utime.tv_usec / 1e6 + usage.ru_stime.tv_sec + usage.ru_stime.tv_usec / 1e6;
}

static void fail(const char *what)
{
    fprintf(stderr, "enet: %s\n", what);
    exit(1);
}

static ENetAddress parse(char *text)
{
    ENetAddress address = {0};
    char *colon = strrchr(text, ':');
    if (!colon)
        fail("give ADDRESS:PORT");
    *colon = 0;
    address.port = (enet_uint16)atoi(colon + 1);
    if (enet_address_set_host_ip(&address, text))
        fail("that is no address");
    return address;
}

/* Tallies messages, or sends them back where the client wants that: its first byte says so. */
static void serve(ENetAddress address)
{
    ENetHost *host = enet_host_create(&address, 8, 2, 0, 0);
    if (!host)
        fail("the address cannot be bound");
    unsigned long long messages = 0, bytes = 0;
    double first = 0, last = 0, cpu = 0;
    for (int clients = 0;;) {
        ENetEvent event;
        if (enet_host_service(host, &event, clients ? 0 : 1000) <= 0)
            continue;
        if (event.type == ENET_EVENT_TYPE_CONNECT) {
            clients++;
            messages = bytes = 0;
            first = 0;
            cpu = cpu_seconds();
        } else if (event.type == ENET_EVENT_TYPE_DISCONNECT) {
            clients--;
        } else if (event.type == ENET_EVENT_TYPE_RECEIVE && event.channelID == 1) {
            char line[128];
            int len = snprintf(line, sizeof line, "%llu %llu %.9f %.6f", messages, bytes, last - first, cpu_seconds() - cpu);
            enet_peer_send(event.peer, 1, enet_packet_create(line, len + 1, ENET_PACKET_FLAG_RELIABLE));
            enet_packet_destroy(event.packet);
        } else if (event.type == ENET_EVENT_TYPE_RECEIVE && event.packet->data[0] == 'p') {
            enet_peer_send(event.peer, 0, event.packet);
            enet_host_flush(host);
        } else if (event.type == ENET_EVENT_TYPE_RECEIVE) {
            /* The clock is asked once for many messages; the end is exact to these. */
            if (messages++ % 64 == 0) {
                last = now();
                first = first ? first : last;
            }
            bytes += event.packet->dataLength;
            enet_packet_destroy(event.packet);
        }
    }
}

static void acknowledged(ENetPacket *packet)
{
    (void)packet;
    outstanding--;
}

/* Works until `type` happens, for a packet on `channel`; frees nothing. Other events have no channel. */
static ENetEvent wait_for(ENetHost *host, ENetEventType type, int channel)
{
    ENetEvent event;
    for (double end = now() + 10; now() < end;)
        if (enet_host_service(host, &event, 0) > 0 && event.type == type
            && (type != ENET_EVENT_TYPE_RECEIVE || event.channelID == channel))
            return event;
    fail("the server does not answer");
    return event;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void ping(ENetHost *host, ENetPeer *peer, char *message, size_t size, double seconds)
{
    double *times = malloc(ROUND_TRIPS_MAX * sizeof *times);
    size_t count = 0;
    message[0] = 'p';
    for (double started = now(); now() - started < seconds && count < ROUND_TRIPS_MAX;) {
        double sent = now();
        enet_peer_send(peer, 0, enet_packet_create(message, size, ENET_PACKET_FLAG_RELIABLE));
        enet_host_flush(host);
        enet_packet_destroy(wait_for(host, ENET_EVENT_TYPE_RECEIVE, 0).packet);
        times[count++] = now() - sent;
    }
    if (!count)
        fail("no round trip");
    qsort(times, count, sizeof *times, compare);
    printf("{\"test\": \"enet-ping\", \"size\": %zu, \"rtt_ns_p50\": %.0f, \"round_trips\": %zu}\n", size,
           times[count / 2] * 1e9, count);
}

static void messages(ENetHost *host, ENetPeer *peer, char *message, size_t size, double seconds)
{
    double cpu = cpu_seconds();
    ENetEvent event;
    for (double started = now(); now() - started < seconds;) {
        for (int n = 0; n < 256 && outstanding < OUTSTANDING_MAX; n++) {
            ENetPacket *packet = enet_packet_create(message, size, ENET_PACKET_FLAG_RELIABLE);
            packet->freeCallback = acknowledged;
            outstanding++;
            enet_peer_send(peer, 0, packet);
        }
        enet_host_service(host, &event, 0);
    }
    while (outstanding)
        enet_host_service(host, &event, 0);
    enet_peer_send(peer, 1, enet_packet_create("end", 4, ENET_PACKET_FLAG_RELIABLE));
    char *line = (char *)wait_for(host, ENET_EVENT_TYPE_RECEIVE, 1).packet->data;
    unsigned long long count, bytes;
    double took, server_cpu;
    if (sscanf(line, "%llu %llu %lf %lf", &count, &bytes, &took, &server_cpu) != 4)
        fail("no result");
    printf("{\"test\": \"enet-message\", \"size\": %zu, \"messages_per_s\": %.3f, \"gbit_per_s\": %.3f, \"bytes\": %llu, "
           "\"client_cpu_s\": %.3f, \"server_cpu_s\": %.3f}\n",
           size, count / took, bytes * 8e-9 / took, bytes, cpu_seconds() - cpu, server_cpu);
}

int main(int argc, char **argv)
{
    char *words[3] = {"", "", ""};
    size_t size = 64;
    double seconds = 2;
    for (int n = 1, word = 0; n < argc; n++) {
        if (n + 1 < argc && !strcmp(argv[n], "--size"))
            size = strtoul(argv[++n], NULL, 10);
        else if (n + 1 < argc && !strcmp(argv[n], "--seconds"))
            seconds = atof(argv[++n]);
        else if (word < 3)
            words[word++] = argv[n];
    }
    if (enet_initialize())
        fail("it cannot be initialised");
    if (!strcmp(words[0], "serve"))
        serve(parse(words[1]));
    int is_ping = !strcmp(words[1], "ping");
    if (strcmp(words[0], "run") || (!is_ping && strcmp(words[1], "message")) || size < 1)
        fail("usage: enet serve ADDRESS:PORT | run message|ping ADDRESS:PORT [--size BYTES] [--seconds S]");
    ENetAddress address = parse(words[2]);
    ENetHost *host = enet_host_create(NULL, 1, 2, 0, 0);
    ENetPeer *peer = host ? enet_host_connect(host, &address, 2, 0) : NULL;
    char *message = calloc(size, 1);
    if (!peer || !message)
        fail("no memory");
    wait_for(host, ENET_EVENT_TYPE_CONNECT, 0);
    (is_ping ? ping : messages)(host, peer, message, size, seconds);
    fflush(stdout);
    enet_peer_disconnect(peer, 0);
    wait_for(host, ENET_EVENT_TYPE_DISCONNECT, 0);
    return 0;
}
