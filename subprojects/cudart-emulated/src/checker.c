/* SPDX-License-Identifier: Apache-2.0 */
/* The happens-before checker. */
#include "emulated.h"

void checker_execute(struct op *op)
{
    (void)op;
}
void checker_host_access(uintptr_t va, size_t size, bool write, const char *what)
{
    (void)va, (void)size, (void)write, (void)what;
}
void checker_forget(uintptr_t va, size_t size)
{
    (void)va, (void)size;
}
void checker_join_host_op(struct op *op)
{
    (void)op;
}
void checker_join_host_after(struct op *op, struct stream *stream)
{
    (void)op, (void)stream;
}
void checker_join_host_stream(struct stream *stream)
{
    (void)stream;
}
void checker_join_host_device(struct device *device)
{
    (void)device;
}
void checker_host_function_begin(struct op *op)
{
    (void)op;
}
void checker_host_function_end(struct op *op)
{
    (void)op;
}
void checker_enqueue(struct op *op)
{
    (void)op;
}
void checker_op_free(struct op *op)
{
    (void)op;
}
void checker_stream_free(struct stream *stream)
{
    (void)stream;
}
void checker_stream_new(struct stream *stream)
{
    (void)stream;
}
