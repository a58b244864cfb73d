/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_SRC_PEERS_H
#define CRMM_DEVICE_SRC_PEERS_H

#include <stddef.h>

#include <crmm/core/status.h>

/*
 * Whether the devices in the option `peer_devices` of the class `who` exist and can reach memory of
 * `device`; the device itself may be among them.
 */
crmm_status crmm_priv_check_peers(const char *who, int device, const int *peers, size_t count);

#endif
