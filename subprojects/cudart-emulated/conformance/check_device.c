#include "conformance.h"
const struct check device_checks[] = {{NULL, NULL}};
