/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Calls everything in nearfar.h once; built in each way executables are built. */
#include "../../include/nearfar.h"

#include <stdio.h>

int main(void)
{
    static char object[64];
    nearfar_begin();
    nearfar_phase_begin("one");
    nearfar_name(object, sizeof object, "object");
    nearfar_metric("residual", 0.5);
    nearfar_phase_end("one");
    nearfar_end();
    puts("done");
    return 0;
}
