/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Stands in for the preload agent: says which calls arrived. */
#include <stddef.h>
#include <stdio.h>

void nearfar_agent_begin(void);
void nearfar_agent_end(void);
void nearfar_agent_phase_begin(const char *name);
void nearfar_agent_phase_end(const char *name);
void nearfar_agent_metric(const char *name, double value);
void nearfar_agent_name(const void *address, size_t bytes, const char *name);

void nearfar_agent_begin(void) { fputs("agent: begin\n", stderr); }
void nearfar_agent_end(void) { fputs("agent: end\n", stderr); }
void nearfar_agent_phase_begin(const char *name) { fprintf(stderr, "agent: phase_begin %s\n", name); }
void nearfar_agent_phase_end(const char *name) { fprintf(stderr, "agent: phase_end %s\n", name); }
void nearfar_agent_metric(const char *name, double value) { fprintf(stderr, "agent: metric %s %g\n", name, value); }
void nearfar_agent_name(const void *address, size_t bytes, const char *name)
{
    if (address != NULL)
        fprintf(stderr, "agent: name %s %zu\n", name, bytes);
}
