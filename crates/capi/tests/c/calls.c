/* Every call used rightly, between two nodes of one process. */
#include "check.h"
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

/* Longest time that anything may take, in milliseconds. */
#define PATIENCE 60000

static int is_ready(int s, int condition, int timeout_ms)
{
    struct pollfd waiting = {cdp_poll_fd(s, condition), POLLIN, 0};
    CHECK(waiting.fd >= 0);
    return poll(&waiting, 1, timeout_ms) == 1;
}

/* [CDP-DG-1] Boundaries are kept, empty messages too; the end of file is told apart from them. */
static void datagrams(int client, int server)
{
    struct cdp_addr addr, peer, mine;
    struct cdp_close_result result;
    struct cdp_stats stats;
    char buffer[64];
    int listener = listener_on(server, CDP_DATAGRAM, &addr);
    int s = cdp_socket_on(client, CDP_DATAGRAM);

    CHECK(option(s, CDP_SERVICE) == CDP_DATAGRAM);
    CHECK(cdp_connect(s, &addr) == 0);
    int a = cdp_accept(listener, &peer);
    CHECK(a > 0 && cdp_getsockname(s, &mine) == 0);
    CHECK(peer.port == mine.port && peer.node == mine.node && peer.underlay_port == mine.underlay_port);

    CHECK(cdp_send(s, "first", 5, 0) == 5);
    CHECK(cdp_send(s, "", 0, 0) == 0);
    CHECK(cdp_send(s, "third message", 13, CDP_DONTWAIT) == 13);
    CHECK(cdp_flush(s) == 0);
    CHECK(cdp_recv(a, buffer, sizeof buffer, 0) == 5 && memcmp(buffer, "first", 5) == 0);
    CHECK(cdp_recv(a, buffer, sizeof buffer, 0) == 0);
    CHECK(cdp_recv(a, buffer, 5, CDP_TRUNC) == 13 && memcmp(buffer, "third", 5) == 0);
    FAILS(cdp_recv(a, buffer, sizeof buffer, CDP_DONTWAIT), EAGAIN);

    CHECK(cdp_send(a, "back", 4, 0) == 4);
    CHECK(is_ready(s, CDP_READABLE, PATIENCE));
    CHECK(cdp_recv(s, buffer, 2, CDP_DONTWAIT | CDP_TRUNC) == 4 && memcmp(buffer, "ba", 2) == 0);

    memset(&stats, 0xFF, sizeof stats);
    CHECK(cdp_stats(s, &stats, sizeof stats) == 0);
    CHECK(stats.messages_sent == 3 && stats.messages_received == 1 && stats.mss >= 512);
    stats.limited_by = 77;
    CHECK(cdp_stats(s, &stats, 8) == 0 && stats.limited_by == 77); /* an older program's smaller struct */

    CHECK(cdp_close_result(s, -1, &result) == 0);
    CHECK(result.confirmed == 1 && result.discarded_here == 0 && result.discarded_by_peer == 0);
    FAILS(cdp_recv(a, buffer, sizeof buffer, 0), ENODATA);
    FAILS(cdp_send(a, "late", 4, 0), EPIPE);
    CHECK(cdp_close(a) == 0);
    CHECK(cdp_close(listener) == 0);
}

/* [CDP-DG-6] A message above the limit fails with EMSGSIZE and sends nothing. */
static void too_large(int client, int server)
{
    struct cdp_addr addr;
    static char large[100001];
    char buffer[8];
    int listener = cdp_socket_on(server, CDP_DATAGRAM), s = cdp_socket_on(client, CDP_DATAGRAM);

    set_option(listener, CDP_MESSAGE_BYTES, 100000);
    CHECK(cdp_listen(listener, 1) == 0 && cdp_getsockname(listener, &addr) == 0);
    CHECK(cdp_connect(s, &addr) == 0);
    int a = cdp_accept(listener, NULL);
    FAILS(cdp_send(s, large, sizeof large, 0), EMSGSIZE);
    CHECK(strstr(cdp_error(), "100001") != NULL && strstr(cdp_error(), "100000") != NULL);
    CHECK(cdp_send(s, large, 100000, 0) == 100000 && cdp_send(s, "end", 3, 0) == 3);
    CHECK(cdp_recv(a, buffer, sizeof buffer, CDP_TRUNC) == 100000);
    CHECK(cdp_recv(a, buffer, sizeof buffer, 0) == 3);
    CHECK(cdp_close(s) == 0 && cdp_close(a) == 0 && cdp_close(listener) == 0);
}

struct flood {
    int s;
    size_t bytes;
};

static void *pour(void *argument)
{
    struct flood *flood = argument;
    static char chunk[100000];
    for (size_t sent = 0; sent < flood->bytes; sent += sizeof chunk) {
        memset(chunk, (int)(sent / sizeof chunk), sizeof chunk);
        CHECK(cdp_send(flood->s, chunk, sizeof chunk, 0) == (ssize_t)sizeof chunk);
    }
    CHECK(cdp_shutdown(flood->s) == 0);
    return NULL;
}

/* A stream brings every byte in order, then the end of file; one thread sends while another receives. */
static void streams(int client, int server)
{
    struct cdp_addr addr;
    struct cdp_close_result result;
    static char buffer[70001];
    pthread_t thread;
    size_t got = 0;
    ssize_t len;
    int listener = listener_on(server, CDP_STREAM, &addr), s = cdp_socket_on(client, CDP_STREAM);

    set_option(s, CDP_CONGESTION, CDP_MODEL);
    set_option(s, CDP_RECEIVE_SLOTS, 256);
    CHECK(cdp_connect(s, &addr) == 0);
    int a = cdp_accept(listener, NULL);
    struct flood flood = {s, 10000000};
    CHECK(pthread_create(&thread, NULL, pour, &flood) == 0);
    while ((len = cdp_recv(a, buffer, sizeof buffer, 0)) > 0)
        for (ssize_t i = 0; i < len; i++, got++)
            CHECK(buffer[i] == (char)(got / 100000));
    CHECK(len == 0 && got == flood.bytes);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(is_ready(s, CDP_CLOSED, PATIENCE));
    CHECK(cdp_close_result(s, 0, &result) == 0 && result.confirmed == 1);
    CHECK(cdp_close(a) == 0 && cdp_close(listener) == 0);
}

/* Connects a socket that does not wait. Returns 0 or an errno; over the loopback interface it may be known at once. */
static int result_of_connect(int s, const struct cdp_addr *addr)
{
    errno = 0;
    if (cdp_connect(s, addr) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    CHECK(is_ready(s, CDP_WRITABLE, PATIENCE));
    return option(s, CDP_ERROR);
}

/* A UDP port that is open and says nothing. */
static int never_answers(struct cdp_addr *addr)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(bind(s, (struct sockaddr *)&at, len) == 0 && getsockname(s, (struct sockaddr *)&at, &len) == 0);
    memset(addr->underlay_ip, 0, sizeof addr->underlay_ip);
    memcpy(addr->underlay_ip, &at.sin_addr, 4);
    addr->underlay = CDP_UNDERLAY_IPV4;
    addr->underlay_port = ntohs(at.sin_port);
    addr->node = 0;
    return s;
}

/* Such a port is nobody's to others, and nobody gets it. */
static void hears_itself(int s)
{
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    CHECK(getsockname(s, (struct sockaddr *)&at, &len) == 0 && connect(s, (struct sockaddr *)&at, len) == 0);
}

/* What a peer that closes first did not take is told. */
static void closed_first(int client, int server)
{
    struct cdp_addr addr;
    struct cdp_close_result result;
    static char packet_of_its_own[1000];
    char byte;
    int listener = listener_on(server, CDP_DATAGRAM, &addr), s = cdp_socket_on(client, CDP_DATAGRAM);

    CHECK(cdp_connect(s, &addr) == 0);
    int a = cdp_accept(listener, NULL);
    CHECK(cdp_send(s, "!", 1, 0) == 1 && cdp_recv(a, &byte, 1, 0) == 1);
    CHECK(cdp_close(a) == 0);
    FAILS(cdp_recv(s, &byte, 1, 0), ENODATA);
    FAILS(cdp_send(s, "?", 1, 0), EPIPE);
    CHECK(cdp_close_result(s, -1, &result) == 0);
    CHECK(result.confirmed == 1 && result.undelivered == 0 && result.discarded_by_peer == 0 && result.reason == 15);

    /* It takes 16 and reads none. */
    CHECK(cdp_close(listener) == 0);
    listener = cdp_socket_on(server, CDP_DATAGRAM);
    set_option(listener, CDP_RECEIVE_SLOTS, 16);
    set_option(listener, CDP_MSS, 600);
    CHECK(cdp_listen(listener, 1) == 0 && cdp_getsockname(listener, &addr) == 0);
    s = cdp_socket_on(client, CDP_DATAGRAM);
    set_option(s, CDP_MSS, 600);
    CHECK(cdp_connect(s, &addr) == 0);
    a = cdp_accept(listener, NULL);
    for (int i = 0; i < 200; i++)
        CHECK(cdp_send(s, packet_of_its_own, sizeof packet_of_its_own, 0) == (ssize_t)sizeof packet_of_its_own);
    CHECK(cdp_close(a) == 0);
    FAILS(cdp_recv(s, &byte, 1, 0), ENODATA);
    CHECK(cdp_close_result(s, -1, &result) == 0);
    CHECK(result.confirmed == 1 && result.undelivered + result.discarded_by_peer >= 200);
    CHECK(cdp_close(listener) == 0);
}

static void without_waiting(int client, int server)
{
    struct cdp_addr addr;
    char byte;
    int listener = listener_on(server, CDP_STREAM, &addr), s = cdp_socket_on(client, CDP_STREAM);

    set_option(s, CDP_NONBLOCK, 1);
    set_option(listener, CDP_NONBLOCK, 1);
    CHECK(result_of_connect(s, &addr) == 0 && option(s, CDP_ERROR) == 0);
    FAILS(cdp_connect(s, &addr), EISCONN);
    CHECK(is_ready(listener, CDP_READABLE, PATIENCE));
    int a = cdp_accept(listener, NULL);
    CHECK(a > 0 && option(a, CDP_NONBLOCK) == 1);
    FAILS(cdp_recv(a, &byte, 1, 0), EAGAIN);
    CHECK(!is_ready(a, CDP_READABLE, 0));
    CHECK(cdp_send(s, "!", 1, 0) == 1);
    CHECK(is_ready(a, CDP_READABLE, PATIENCE));
    CHECK(cdp_recv(a, &byte, 1, 0) == 1 && byte == '!');

    /* A connect that is refused. */
    int lost = cdp_socket_on(client, CDP_STREAM);
    set_option(lost, CDP_NONBLOCK, 1);
    addr.port = addr.port == 5000 ? 5001 : 5000;
    CHECK(result_of_connect(lost, &addr) == ECONNREFUSED && option(lost, CDP_ERROR) == 0);

    /* The same result for a socket that waits meanwhile, which may connect again. */
    set_option(lost, CDP_NONBLOCK, 1);
    errno = 0;
    if (cdp_connect(lost, &addr) == -1 && errno == EINPROGRESS) {
        size_t four = 4, three = 3;
        CHECK(is_ready(lost, CDP_WRITABLE, PATIENCE));
        /* A call that is wrong does not use the error up. */
        FAILS(cdp_getsockopt(lost, CDP_ERROR, NULL, &four), EFAULT);
        FAILS(cdp_getsockopt(lost, CDP_ERROR, &byte, &three), EINVAL);
        set_option(lost, CDP_NONBLOCK, 0);
        FAILS(cdp_connect(lost, &addr), ECONNREFUSED);
    }
    set_option(lost, CDP_NONBLOCK, 0);
    FAILS(cdp_connect(lost, &addr), ECONNREFUSED);

    /* A connect that nobody answers goes on, and a second one says so. */
    int mute = never_answers(&addr);
    int silent = cdp_socket(CDP_STREAM);
    set_option(silent, CDP_NONBLOCK, 1);
    FAILS(cdp_connect(silent, &addr), EINPROGRESS);
    FAILS(cdp_connect(silent, &addr), EALREADY);
    CHECK(!is_ready(silent, CDP_WRITABLE, 0));
    set_option(silent, CDP_NONBLOCK, 0);
    CHECK(cdp_close(silent) == 0 && cdp_close(lost) == 0);

    /* One that waits is told in time. */
    silent = cdp_socket(CDP_STREAM);
    set_option(silent, CDP_CONNECT_TIMEOUT, 50);
    FAILS(cdp_connect(silent, &addr), ETIMEDOUT);
    CHECK(cdp_close(silent) == 0);

    /* Where no process has the UDP port, the host says so: it hears its peer alone, which is itself. */
    hears_itself(mute);
    silent = cdp_socket(CDP_STREAM);
    FAILS(cdp_connect(silent, &addr), ECONNREFUSED);
    CHECK(strstr(cdp_error(), "nothing listens") != NULL && cdp_close(silent) == 0 && close(mute) == 0);

    /* A close that does not wait, and its result. */
    struct cdp_close_result result;
    int closed = cdp_close_result(s, 0, &result);
    if (closed < 0) {
        CHECK(errno == EAGAIN);
        CHECK(is_ready(s, CDP_CLOSED, PATIENCE));
        CHECK(cdp_close_result(s, 0, &result) == 0);
    }
    CHECK(result.confirmed == 1);
    CHECK(cdp_close(a) == 0 && cdp_close(listener) == 0);
}

/* Waits until a node or a socket has something, as a loop of events does, and makes progress for the node. */
static void turn(int node, int s)
{
    struct pollfd waiting[] = {{cdp_progress_fd(node), POLLIN, 0}, {cdp_poll_fd(s, CDP_READABLE), POLLIN, 0}};
    CHECK(waiting[0].fd >= 0 && waiting[1].fd >= 0);
    CHECK(poll(waiting, 2, PATIENCE) >= 1);
    if (waiting[0].revents != 0) {
        CHECK(cdp_progress(node) >= 0);
    }
}

/* Both ends of a conversation sleep in loops of this program's own. */
static void in_loops(int client, int server)
{
    struct cdp_addr addr, peer;
    char buffer[8];
    int listener = listener_on(server, CDP_DATAGRAM, &addr), s = cdp_socket_on(client, CDP_DATAGRAM);

    CHECK(cdp_progress_fd(server) == cdp_progress_fd(server));
    CHECK(cdp_connect(s, &addr) == 0);
    int a = cdp_accept(listener, &peer);
    for (int round = 0; round < 200; round++) {
        CHECK(cdp_send(s, &round, sizeof round, 0) == (long)sizeof round);
        while (cdp_recv(a, buffer, sizeof buffer, CDP_DONTWAIT) < 0) {
            CHECK(errno == EAGAIN);
            turn(server, a);
        }
        CHECK(cdp_send(a, buffer, sizeof round, 0) == (long)sizeof round);
        while (cdp_recv(s, buffer, sizeof buffer, CDP_DONTWAIT) < 0) {
            CHECK(errno == EAGAIN);
            turn(client, s);
        }
        CHECK(memcmp(buffer, &round, sizeof round) == 0);
    }
    CHECK(cdp_close(s) == 0 && cdp_close(a) == 0 && cdp_close(listener) == 0);
    FAILS(cdp_progress_fd(a), EBADF);
    FAILS(cdp_progress(-1), EBADF);
}

static void times_out(int client, int server)
{
    struct cdp_addr addr;
    char byte;
    int listener = listener_on(server, CDP_STREAM, &addr), s = cdp_socket_on(client, CDP_STREAM);

    set_option(listener, CDP_RECV_TIMEOUT, 20);
    FAILS(cdp_accept(listener, NULL), EAGAIN);
    set_option(listener, CDP_RECV_TIMEOUT, 0);
    CHECK(cdp_connect(s, &addr) == 0);
    int a = cdp_accept(listener, NULL);
    set_option(s, CDP_RECV_TIMEOUT, 20);
    FAILS(cdp_recv(s, &byte, 1, 0), EAGAIN);

    /* An abort resets the other end. */
    CHECK(cdp_abort(s) == 0);
    FAILS(cdp_recv(a, &byte, 1, 0), ECONNRESET);
    cdp_close(a);
    CHECK(cdp_close(listener) == 0);
}

static void options_keep_their_values(int client)
{
    int s = cdp_socket_on(client, CDP_STREAM);
    int64_t wide = 1LL << 33;
    size_t len = sizeof wide;

    CHECK(option(s, CDP_RECEIVE_SLOTS) == 1024 && option(s, CDP_INTEGRITY) == 1 && option(s, CDP_MSS) == 0);
    set_option(s, CDP_COALESCING, CDP_COALESCE_OFF);
    CHECK(option(s, CDP_COALESCING) == CDP_COALESCE_OFF);
    CHECK(cdp_setsockopt(s, CDP_SEND_BYTES, &wide, sizeof wide) == 0);
    wide = 0;
    CHECK(cdp_getsockopt(s, CDP_SEND_BYTES, &wide, &len) == 0 && wide == 1LL << 33);
    int narrow;
    len = sizeof narrow;
    FAILS(cdp_getsockopt(s, CDP_SEND_BYTES, &narrow, &len), EINVAL);
    CHECK(cdp_close(s) == 0);
}

/* Nodes that know each other by number. */
static void numbers(void)
{
    struct cdp_node_config config = CDP_NODE_CONFIG_INIT;
    struct cdp_addr east, west, target = {0};
    struct cdp_node_stats stats;
    char text[CDP_ADDR_TEXT_MAX];

    config.bind = "127.0.0.1:0";
    config.flags = CDP_NODE_STRICT | CDP_NODE_NO_SPIN;
    config.scheme = CDP_SCHEME_FINE;
    config.node = 17;
    int first = cdp_node_open(&config);
    config.node = 18;
    int second = cdp_node_open(&config);
    CHECK(cdp_node_address(first, &east) == 0 && east.node == 17 && east.port == 0);
    CHECK(cdp_node_address(second, &west) == 0 && west.node == 18);
    CHECK(cdp_addr_text(&east, text, sizeof text) > 0 && strstr(text, "127.0.0.1") != NULL);
    CHECK(cdp_node_peer(first, &west) == 0 && cdp_node_peer(second, &east) == 0);

    int listener = listener_on(second, CDP_DATAGRAM, &west), s = cdp_socket_on(first, CDP_DATAGRAM);
    target.node = 18;
    target.port = west.port;
    CHECK(cdp_connect(s, &target) == 0);
    int a = cdp_accept(listener, NULL);
    CHECK(cdp_send(s, "x", 1, 0) == 1 && cdp_recv(a, text, sizeof text, 0) == 1);
    CHECK(cdp_send(a, "y", 1, 0) == 1 && cdp_recv(s, text, sizeof text, 0) == 1);
    CHECK(cdp_node_stats(second, &stats, sizeof stats) == 0);
    CHECK(stats.packets_in >= 1);
    CHECK(stats.packets_out >= 1);
    CHECK(stats.listeners == 1);
    CHECK(stats.connections == 1);
    CHECK(cdp_close(s) == 0 && cdp_close(a) == 0 && cdp_close(listener) == 0);
    CHECK(cdp_node_close(first, 1000) >= 0 && cdp_node_close(second, 1000) >= 0);
}

int main(void)
{
    int client = node_on_loopback(), server = node_on_loopback();

    CHECK(strcmp(cdp_reason_name(6), "gave up") == 0 && strlen(cdp_strerror(EPIPE)) > 0 && strlen(cdp_version()) > 0);
    datagrams(client, server);
    too_large(client, server);
    streams(client, server);
    closed_first(client, server);
    without_waiting(client, server);
    in_loops(client, server);
    times_out(client, server);
    options_keep_their_values(client);
    numbers();
    CHECK(cdp_node_close(client, 1000) >= 0 && cdp_node_close(server, 1000) >= 0);
    printf("calls: ok\n");
    return 0;
}
