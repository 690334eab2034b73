/* Firmware that labels the rows of rows.h with the model of model.h and counts what a label costs.
 *
 * It runs on a Cortex-M3 or M4 without an operating system. Text leaves by semihosting, time is
 * taken from SysTick, which counts down once per tick of the processor clock.
 */
#include <stdint.h>
#include "model.h"
#include "rows.h"

#define SYST_CSR (*(volatile uint32_t *)0xE000E010)
#define SYST_RVR (*(volatile uint32_t *)0xE000E014)
#define SYST_CVR (*(volatile uint32_t *)0xE000E018)
#define CPACR (*(volatile uint32_t *)0xE000ED88)

extern uint32_t stack_top;
extern uint32_t data_start, data_end, data_load, bss_start, bss_end;
void reset(void);
void stop(void);

__attribute__((section(".vectors"), used)) static void (*const vectors[])(void) = {
    (void (*)(void))&stack_top, reset, stop, stop,
};

static int host(int operation, const void *argument)
{
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void stop(void)
{
    host(0x18, (const void *)0x20026); /* the application has ended */
    for (;;) { }
}

static void print_number(int32_t value, char end)
{
    char text[16];
    int place = 15, negative = value < 0;
    uint32_t left = negative ? (uint32_t)-value : (uint32_t)value;
    text[place] = 0;
    text[--place] = end;
    do {
        text[--place] = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (negative) text[--place] = '-';
    host(0x04, text + place);
}

/* The function whose cost is counted; it is its own so that its size can be read off. */
__attribute__((noinline)) int classify(const float *x)
{
    return MODEL(predict)(x);
}

int main(void)
{
    uint32_t ticks = 0;
    int i;
    for (i = 0; i < N_ROWS; ++i) {
        const float *x = rows[i];
        uint32_t before;
        int c;
        SYST_RVR = 0xFFFFFF;
        SYST_CVR = 0;
        SYST_CSR = 5;
        before = SYST_CVR;
        /* the compiler must not move the prediction out from between the two readings */
        __asm__ volatile("" : "+r"(x) : : "memory");
        c = classify(x);
        __asm__ volatile("" : "+r"(c) : : "memory");
        ticks += (before - SYST_CVR) & 0xFFFFFF;
        print_number(c, '\n');
    }
    host(0x04, "ticks ");
    print_number((int32_t)ticks, '\n');
    return 0;
}

void reset(void)
{
    uint32_t *to, *from = &data_load;
    CPACR |= 0xF << 20; /* the floating point unit, where there is one */
    for (to = &data_start; to < &data_end; ++to) *to = *from++;
    for (to = &bss_start; to < &bss_end; ++to) *to = 0;
    main();
    stop();
}
