/* A stand-in for NVIDIA's library: two GPUs, told apart by FAKE_NVML: good, na (most fields not supported), lost (the
   second one), broken (the driver refuses everything). The mode is read anew at each call from the file FAKE_NVML names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int gpu, memory; } rates_t;
enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER = 9, LOST = 15 };
static int is(const char *mode) {
    char now[32] = "good";
    FILE *file = fopen(getenv("FAKE_NVML"), "r");
    if (file) { if (!fgets(now, sizeof now, file)) now[0] = 0; fclose(file); }
    return strncmp(now, mode, strlen(mode)) == 0;
}
static int sick(void *device) { return is("lost") && device == (void *)2; }
int nvmlInitWithFlags(unsigned int flags) { return is("broken") ? DRIVER : OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : code == NOT_SUPPORTED ? "Not Supported" : "Driver Not Loaded"; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = is("one") ? 1 : 2; return is("broken") ? DRIVER : OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) { *device = (void *)(long)(index + 1); return OK; }
int nvmlDeviceGetUUID(void *device, char *out, unsigned int length) { snprintf(out, length, "GPU-fake-%ld", (long)device); return OK; }
int nvmlDeviceGetName(void *device, char *out, unsigned int length) { if (sick(device)) return LOST; snprintf(out, length, "NVIDIA A100-SXM4-80GB"); return OK; }
int nvmlDeviceGetMemoryInfo(void *device, memory_t *out) {
    if (sick(device)) return LOST;
    out->total = 80ULL << 30; out->used = is("busy") ? 20ULL << 30 : 1 << 20; out->free = out->total - out->used;
    return OK;
}
int nvmlDeviceGetUtilizationRates(void *device, rates_t *out) { if (sick(device)) return LOST; if (is("na")) return NOT_SUPPORTED; out->gpu = 50; out->memory = 10; return OK; }
int nvmlDeviceGetPowerUsage(void *device, unsigned int *out) { if (sick(device)) return LOST; if (is("na")) return NOT_SUPPORTED; *out = 300500; return OK; }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *out) { if (sick(device)) return LOST; *out = 61; return OK; }
