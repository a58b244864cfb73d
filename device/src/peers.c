/* SPDX-License-Identifier: Apache-2.0 */
#include "peers.h"

#include <stdbool.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/floor_pool.h>

static crmm_status check_peer(const char *who, int device, int peer)
{
    bool can = peer == device;

    crmm_status status = can ? CRMM_SUCCESS : crmm_priv_cuda_can_access_peer(peer, device, &can);
    if (status == CRMM_SUCCESS && !can) {
        return FAIL(CRMM_ERROR_UNSUPPORTED, 0, "%s: device %d cannot access memory of device %d",
                    who, peer, device);
    }
    return status;
}

crmm_status crmm_priv_check_peers(const char *who, int device, const int *peers, size_t count)
{
    int devices = 0;

    if (count == 0) {
        return CRMM_SUCCESS;
    }
    if (peers == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->peer_devices is NULL, with peer_device_count %zu", who, count);
    }
    crmm_status status = crmm_priv_cuda_device_count(&devices);
    for (size_t i = 0; status == CRMM_SUCCESS && i < count; i++) {
        if (peers[i] < 0 || peers[i] >= devices) {
            return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                        "%s: options->peer_devices[%zu] is %d; there are %d devices", who, i,
                        peers[i], devices);
        }
        status = check_peer(who, device, peers[i]);
    }
    return status;
}
