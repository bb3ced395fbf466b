// Node-API, as far as it is used. Its functions are Node's own; in any other process they are missing, and nothing may call them.

#ifndef RANKTRACE_NODE_ADDON_H
#define RANKTRACE_NODE_ADDON_H

#include <stddef.h>
#include <stdint.h>

typedef struct napi_env__ *napi_env;
typedef struct napi_value__ *napi_value;
typedef struct napi_callback_info__ *napi_callback_info;
typedef napi_value (*napi_callback)(napi_env, napi_callback_info);

#define WEAK __attribute__((weak)) extern
WEAK int napi_create_function(napi_env, const char *, size_t, napi_callback, void *, napi_value *);
WEAK int napi_set_named_property(napi_env, napi_value, const char *, napi_value);
WEAK int napi_set_element(napi_env, napi_value, uint32_t, napi_value);
WEAK int napi_get_cb_info(napi_env, napi_callback_info, size_t *, napi_value *, napi_value *, void **);
WEAK int napi_get_value_string_utf8(napi_env, napi_value, char *, size_t, size_t *);
WEAK int napi_get_value_uint32(napi_env, napi_value, uint32_t *);
WEAK int napi_get_value_double(napi_env, napi_value, double *);
WEAK int napi_create_string_utf8(napi_env, const char *, size_t, napi_value *);
WEAK int napi_create_double(napi_env, double, napi_value *);
WEAK int napi_create_array(napi_env, napi_value *);
WEAK int napi_get_boolean(napi_env, _Bool, napi_value *);
WEAK int napi_get_undefined(napi_env, napi_value *);
WEAK int napi_throw_error(napi_env, const char *, const char *);
#undef WEAK

#endif
