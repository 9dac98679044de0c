/* The few functions of Node-API and libuv that the helper calls, so that it builds without Node's headers. Node-API is ABI-stable: one
 * build serves every Node.js since version 18. */
#ifndef FLINT_NAPI_H
#define FLINT_NAPI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void *napi_env, *napi_value, *napi_callback_info, *napi_ref, *napi_async_context, *napi_handle_scope;
typedef int napi_status; /* 0 = all is well */
typedef napi_value (*napi_callback)(napi_env, napi_callback_info);
typedef struct uv_loop_s uv_loop_t;
typedef struct uv_poll_s uv_poll_t;

#define NAPI_AUTO_LENGTH SIZE_MAX

napi_status napi_create_function(napi_env, const char *name, size_t length, napi_callback, void *data, napi_value *result);
napi_status napi_set_named_property(napi_env, napi_value object, const char *name, napi_value value);
napi_status napi_get_cb_info(napi_env, napi_callback_info, size_t *argc, napi_value *argv, napi_value *self, void **data);
napi_status napi_get_value_int32(napi_env, napi_value, int32_t *result);
napi_status napi_get_buffer_info(napi_env, napi_value, void **data, size_t *length);
napi_status napi_create_double(napi_env, double, napi_value *result);
napi_status napi_throw_error(napi_env, const char *code, const char *message);
napi_status napi_get_uv_event_loop(napi_env, uv_loop_t **loop);
napi_status napi_create_string_utf8(napi_env, const char *text, size_t length, napi_value *result);
napi_status napi_create_reference(napi_env, napi_value, uint32_t count, napi_ref *result);
napi_status napi_get_reference_value(napi_env, napi_ref, napi_value *result);
napi_status napi_get_global(napi_env, napi_value *result);
napi_status napi_open_handle_scope(napi_env, napi_handle_scope *result);
napi_status napi_close_handle_scope(napi_env, napi_handle_scope);
napi_status napi_async_init(napi_env, napi_value resource, napi_value name, napi_async_context *result);
napi_status napi_make_callback(napi_env, napi_async_context, napi_value self, napi_value function, size_t argc, const napi_value *argv, napi_value *result);
napi_status napi_get_and_clear_last_exception(napi_env, napi_value *result);
napi_status napi_fatal_exception(napi_env, napi_value error);

enum { UV_POLL = 8, UV_READABLE = 1 }; /* of uv_handle_type and uv_poll_event, which stay as they are in all of libuv 1 */

int uv_loop_fork(uv_loop_t *);
size_t uv_handle_size(int type);
int uv_poll_init(uv_loop_t *, uv_poll_t *, int fd);
int uv_poll_start(uv_poll_t *, int events, void (*callback)(uv_poll_t *, int status, int events));
int uv_poll_stop(uv_poll_t *);

#endif
