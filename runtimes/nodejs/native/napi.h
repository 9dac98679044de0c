/* The few functions of Node-API and libuv that the helper calls, so that it builds without Node's headers.
 * Node-API is ABI-stable: one build serves every Node.js since version 18. */
#ifndef FLINT_NAPI_H
#define FLINT_NAPI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void *napi_env, *napi_value, *napi_callback_info;
typedef int napi_status; /* 0 = all is well */
typedef napi_value (*napi_callback)(napi_env, napi_callback_info);
typedef struct uv_loop_s uv_loop_t;

#define NAPI_AUTO_LENGTH SIZE_MAX

napi_status napi_create_function(napi_env, const char *name, size_t length, napi_callback, void *data, napi_value *result);
napi_status napi_set_named_property(napi_env, napi_value object, const char *name, napi_value value);
napi_status napi_get_cb_info(napi_env, napi_callback_info, size_t *argc, napi_value *argv, napi_value *self, void **data);
napi_status napi_get_value_int32(napi_env, napi_value, int32_t *result);
napi_status napi_get_buffer_info(napi_env, napi_value, void **data, size_t *length);
napi_status napi_create_double(napi_env, double, napi_value *result);
napi_status napi_throw_error(napi_env, const char *code, const char *message);
napi_status napi_get_uv_event_loop(napi_env, uv_loop_t **loop);

int uv_loop_fork(uv_loop_t *);

#endif
