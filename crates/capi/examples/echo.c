/*
 * echo.c - an echo server and its client, over CDP streams.
 *
 *   cc -o echo echo.c $(pkg-config --cflags --libs cdp)
 *   ./echo serve 0.0.0.0:64064 1064          UDP address and CDP port to listen on; 0 takes any port
 *   ./echo ask 192.0.2.7:1064 64064 hello    HOST:CDP-PORT, UDP port, text
 *
 * The server prints where it listens, serves one client after the other, and ends after the last one said "bye".
 */
#include <cdp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what)
{
    fprintf(stderr, "echo: %s: %s\n", what, cdp_error());
    return 1;
}

/*
 * Sends back what comes until the client closes. Returns 1 when it said "bye", 0 when not, -1 after a failure.
 *
 * A stream has no boundaries: what one send gave may come in pieces, or with what the next one gave. To look for "bye" in what one
 * cdp_recv brings is good enough for an example; a program that needs messages takes CDP_DATAGRAM.
 */
static int echo_all(int s)
{
    char buffer[65536];
    int is_last = 0;
    ssize_t len;

    while ((len = cdp_recv(s, buffer, sizeof buffer, 0)) > 0) {
        is_last = len == 3 && memcmp(buffer, "bye", 3) == 0;
        if (cdp_send(s, buffer, (size_t)len, 0) < 0)
            return -1;
    }
    return len < 0 ? -1 : is_last;
}

static int serve(const char *underlay, const char *port)
{
    struct cdp_node_config config = CDP_NODE_CONFIG_INIT;
    struct cdp_addr here = {0}, peer;
    char text[CDP_ADDR_TEXT_MAX];
    int listener, is_last = 0;

    config.bind = underlay;
    if (cdp_init(&config) < 0)
        return fail("node");
    here.port = (uint16_t)atoi(port);
    listener = cdp_socket(CDP_STREAM);
    if (listener < 0 || cdp_bind(listener, &here) < 0 || cdp_listen(listener, 16) < 0)
        return fail("listen");
    if (cdp_getsockname(listener, &here) < 0)
        return fail("name");
    printf("port %u udp %u\n", (unsigned)here.port, (unsigned)here.underlay_port);
    fflush(stdout);

    while (!is_last) {
        int s = cdp_accept(listener, &peer);
        if (s < 0 || cdp_addr_text(&peer, text, sizeof text) < 0)
            return fail("accept");
        fprintf(stderr, "echo: %s\n", text);
        is_last = echo_all(s);
        if (is_last < 0)
            return fail("echo");
        if (cdp_close(s) < 0)
            return fail("close");
    }
    return cdp_close(listener) < 0 ? fail("close") : 0;
}

static int ask(const char *host, const char *underlay_port, const char *question)
{
    struct cdp_addr there;
    struct cdp_close_result result;
    size_t sent = strlen(question), got = 0;
    char *answer = malloc(sent + 1);
    int s = cdp_socket(CDP_STREAM);

    if (answer == NULL || s < 0 || cdp_resolve(host, (uint16_t)atoi(underlay_port), &there) < 0)
        return fail("start");
    if (cdp_connect(s, &there) < 0)
        return fail("connect");
    if (cdp_send(s, question, sent, 0) < 0)
        return fail("send");
    while (got < sent) {
        ssize_t len = cdp_recv(s, answer + got, sent - got, 0);
        if (len <= 0)
            return fail("recv");
        got += (size_t)len;
    }
    answer[got] = '\0';
    printf("%s\n", answer);
    free(answer);
    if (cdp_close_result(s, -1, &result) < 0)
        return fail("close");
    return result.confirmed ? 0 : 2;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "serve") == 0)
        return serve(argv[2], argv[3]);
    if (argc == 5 && strcmp(argv[1], "ask") == 0)
        return ask(argv[2], argv[3], argv[4]);
    fprintf(stderr, "usage: echo serve IP:UDP-PORT CDP-PORT | echo ask HOST:CDP-PORT UDP-PORT TEXT\n");
    return 64;
}
