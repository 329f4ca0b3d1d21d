/* fiber.h and cdp.h in one program: a blocking call of a socket waits on its fiber, and the worker runs others. */
#include "check.h"
#include <fiber.h>

#define MESSAGES 200
#define CONNECTIONS 50

static int node;

/* Sends back what comes, until the peer closes. */
static intptr_t echoes(int s)
{
    char buffer[64];
    ssize_t len;
    intptr_t messages = 0;
    while ((len = cdp_recv(s, buffer, sizeof buffer, 0)) >= 0) {
        CHECK(cdp_send(s, buffer, (size_t)len, 0) == len);
        messages++;
    }
    CHECK(errno == ENODATA);
    CHECK(cdp_close(s) == 0);
    return messages;
}

/* Accepts connections, each for a fiber of its own. */
static intptr_t serves(int listener)
{
    fiber_t fibers[CONNECTIONS];
    intptr_t sum = 0;
    for (int i = 0; i < CONNECTIONS; i++) {
        int s = cdp_accept(listener, NULL);
        CHECK(s > 0);
        CHECK(fiber_create(&fibers[i], NULL, echoes, s) == 0);
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        intptr_t messages = 0;
        CHECK(fiber_join(fibers[i], FIBER_FOREVER, &messages) == 0);
        sum += messages;
    }
    return sum;
}

static intptr_t asks(const struct cdp_addr *addr)
{
    int s = cdp_socket_on(node, CDP_DATAGRAM);
    CHECK(s > 0 && cdp_connect(s, addr) == 0);
    for (int i = 0; i < MESSAGES; i++) {
        char buffer[64] = "";
        CHECK(cdp_send(s, &i, sizeof i, 0) == sizeof i);
        CHECK(cdp_recv(s, buffer, sizeof buffer, 0) == sizeof i && memcmp(buffer, &i, sizeof i) == 0);
    }
    return cdp_close(s);
}

static intptr_t join_of(fiber_t fiber)
{
    intptr_t result = -9;
    CHECK(fiber_join(fiber, FIBER_FOREVER, &result) == 0);
    return result;
}

static void talk_on_one_worker(void)
{
    struct cdp_addr addr;
    fiber_t server, clients[CONNECTIONS];
    int listener = listener_on(node, CDP_DATAGRAM, &addr);
    CHECK(fiber_create(&server, NULL, serves, listener) == 0);
    for (int i = 0; i < CONNECTIONS; i++)
        CHECK(fiber_create(&clients[i], NULL, asks, &addr) == 0);
    for (int i = 0; i < CONNECTIONS; i++)
        CHECK(join_of(clients[i]) == 0);
    CHECK(join_of(server) == (intptr_t)MESSAGES * CONNECTIONS);
    CHECK(cdp_close(listener) == 0);
}

static int timed_out;

static intptr_t accepts_in_vain(int listener)
{
    FAILS(cdp_accept(listener, NULL), EAGAIN); /* after CDP_RECV_TIMEOUT */
    set_option(listener, CDP_RECV_TIMEOUT, 0);
    __atomic_store_n(&timed_out, 1, __ATOMIC_RELEASE);
    FAILS(cdp_accept(listener, NULL), ECANCELED);
    FAILS(cdp_accept(listener, NULL), ECANCELED);
    return 5;
}

static void time_outs_and_cancellation(void)
{
    struct cdp_addr addr;
    fiber_t fiber;
    int listener = listener_on(node, CDP_DATAGRAM, &addr);
    set_option(listener, CDP_RECV_TIMEOUT, 10);
    CHECK(fiber_create(&fiber, NULL, accepts_in_vain, listener) == 0);
    while (!__atomic_load_n(&timed_out, __ATOMIC_ACQUIRE))
        CHECK(fiber_sleep(1000000) == 0);
    CHECK(fiber_cancel(fiber) == 0);
    CHECK(join_of(fiber) == 5);
    CHECK(cdp_close(listener) == 0);
}

static intptr_t hears_of_the_end(int s, int listener)
{
    char byte;
    if (s == 0)
        FAILS(cdp_accept(listener, NULL), EINVAL);
    else
        CHECK(cdp_recv(s, &byte, 1, 0) == -1);
    return 6;
}

static intptr_t closes_the_node(int closing) { return cdp_node_close(closing, 60000); }

static void a_node_is_closed_under_waiting_fibers(void)
{
    struct cdp_addr addr;
    fiber_t reader, acceptor, closer;
    int other = node_on_loopback();
    int listener = listener_on(other, CDP_DATAGRAM, &addr);
    int s = cdp_socket_on(node, CDP_DATAGRAM);
    CHECK(cdp_connect(s, &addr) == 0);
    int accepted = cdp_accept(listener, NULL);
    CHECK(accepted > 0);
    CHECK(fiber_create(&reader, NULL, hears_of_the_end, accepted, 0) == 0);
    CHECK(fiber_create(&acceptor, NULL, hears_of_the_end, 0, listener) == 0);
    /* on the one worker, both wait before this one begins */
    CHECK(fiber_create(&closer, NULL, closes_the_node, other) == 0);
    CHECK(join_of(reader) == 6 && join_of(acceptor) == 6);
    cdp_close(s);
    CHECK(join_of(closer) == 0);
}

int main(void)
{
    node = node_on_loopback();
    CHECK(fiber_init(NULL) == 0);
    talk_on_one_worker();
    time_outs_and_cancellation();
    a_node_is_closed_under_waiting_fibers();
    CHECK(fiber_shutdown() == 0);
    puts("fibers and sockets: ok");
    return 0;
}
