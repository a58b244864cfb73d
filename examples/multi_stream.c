/* SPDX-License-Identifier: Apache-2.0 */
/* One stream fills a vector, another one takes it over; nothing waits for the device until the end.
 */
#include <crmm/cleanup.h>
#include <crmm/containers/typed.h>
#include <crmm/crmm.h>

#include <stdio.h>

CRMM_DEVICE_UVECTOR_DEFINE(ints, int)

int main(void)
{
    /* Any two streams do; a program with CUDA's headers passes its cudaStream_t. */
    crmm_stream producer = CRMM_STREAM_LEGACY;
    crmm_stream consumer = CRMM_STREAM_PER_THREAD;
    CRMM_AUTO(ints) numbers = {0};
    CRMM_AUTO(ints) copy = {0};
    static const int first = 42; /* must live until the stream has passed its copy */
    int read = 0;

    if (ints_init(&numbers, 1000, producer, NULL) ||
        ints_set_element_async(&numbers, 0, &first, producer) ||
        /* From here on the consumer comes after what the producer has queued, and the memory will
         * be given back on the consumer. Growing, shrinking and resizing order streams as well. */
        ints_set_stream(&numbers, consumer) ||
        /* Queued on the consumer, so it sees what the producer wrote. */
        ints_init_clone(&copy, &numbers, consumer, NULL) ||
        /* Reading an element waits for its stream. */
        ints_element(&copy, 0, consumer, &read)) {
        fprintf(stderr, "%s\n", crmm_last_error()->message);
        return 1;
    }
    printf("%d of %zu elements: %d\n", 1, ints_size(&copy), read);
    return read == 42 ? 0 : 1;
}
