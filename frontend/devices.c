/* devices.c: devices as the public interface shows them: how many there are, what they are, waiting for them. */
#include "frontend/context/context.h"

#include <stdio.h>
#include <string.h>

static sn_status device_count(unsigned *out, sn_context *ctx) {
    char why[256] = "";
    *out = sn_cuda_count(why, sizeof why);
    if (*out) return SN_OK;
    return sn_fail(&ctx->env, SN_ERROR_DEVICE, "no CUDA device: %s", why[0] ? why : "the driver reports none");
}

sn_status sn_device_count(unsigned *out, sn_context *ctx) {
    if (out) *out = 0;
    SN_GUARD_RETURN(ctx, device_count(out, ctx), out);
}

static sn_status device_info(const char **name, const char **target, sn_context *ctx, int device) {
    sn_cuda *cu;
    if (device == SN_CPU) {
        *name = "cpu";
        *target = "host";
        return SN_OK;
    }
    SN_TRY(sn_context_cuda(&cu, ctx, device));
    sn_target t = {0};
    sn_cuda_target(cu, &t);
    memcpy(ctx->cuda_target[device], t.name, sizeof t.name);
    *name = sn_cuda_name(cu);
    *target = ctx->cuda_target[device];
    return SN_OK;
}

sn_status sn_device_info(const char **name, const char **target, sn_context *ctx, int device) {
    if (name) *name = "";
    if (target) *target = "";
    SN_GUARD_RETURN(ctx, device_info(name, target, ctx, device), name, target);
}

static sn_status device_library(const char **out, sn_context *ctx, int device) {
    sn_cuda *cu = NULL;
    char products[SN_LIBRARY_WHY], convs[SN_LIBRARY_WHY];
    if (device != SN_CPU) SN_TRY(sn_context_cuda(&cu, ctx, device));
    bool any = sn_library_name(products, cu, false);
    if (cu) any |= sn_library_name(convs, cu, true);
    char *name = ctx->library[device + 1];
    snprintf(name, sizeof ctx->library[0], "%s%s%s", products, cu ? ", " : "", cu ? convs : "");
    if (!any) return sn_fail(&ctx->env, SN_ERROR_UNSUPPORTED, "%s", name);
    *out = name;
    return SN_OK;
}

sn_status sn_device_library(const char **out, sn_context *ctx, int device) {
    if (out) *out = "";
    SN_GUARD_RETURN(ctx, device_library(out, ctx, device), out);
}

static sn_status device_copy_rate(double *out, sn_context *ctx, int device) {
    sn_cuda *cu;
    SN_TRY(sn_context_cuda(&cu, ctx, device));
    return sn_cuda_copy_rate(out, cu);
}

sn_status sn_device_copy_rate(double *out, sn_context *ctx, int device) {
    if (out) *out = 0;
    SN_GUARD_RETURN(ctx, device_copy_rate(out, ctx, device), out);
}

static sn_status device_sync(sn_context *ctx, int device, void *stream) {
    if (device == SN_CPU) return SN_OK;
    sn_cuda *cu;
    SN_TRY(sn_context_cuda(&cu, ctx, device));
    return sn_cuda_sync(cu, stream);
}

sn_status sn_device_sync(sn_context *ctx, int device, void *stream) {
    SN_GUARD_RETURN(ctx, device_sync(ctx, device, stream));
}
